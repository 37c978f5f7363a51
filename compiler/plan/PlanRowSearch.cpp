#include "compiler/plan/PlanRowSearch.h"

#include "compiler/plan/Cut.h"
#include "compiler/schedule/RowSearch.h"

#include <algorithm>

namespace pdc {

/// What the search may cost.
static constexpr int64_t kSearchEffort = 2'000'000;

/// What the search may hold at once, on a replica: as much as zb-h2 does, and no more than fits.
static std::vector<int> mostInFlight(const Plan &plan, const Planner &planner) {
  auto stages = static_cast<int64_t>(plan.stages.size());
  std::vector<int64_t> heldByRank = memoryByRank(plan);
  std::vector<int> most;
  for (const PlanStage &stage : plan.stages) {
    int64_t own = plan.schedule.microbatches / plan.schedule.replicas(stage.id);
    int64_t slots = std::min(own, 2 * (stages - stage.id) - 1);
    int64_t held = plan.schedule.slots[stage.id], limit = planner.memoryLimit(stage.ranks);
    int64_t sharing = std::ranges::count(plan.schedule.ranksOfStage, stage.ranks);
    if (limit && stage.slotBytes > 0)
      slots =
          std::min(slots, held + (limit - heldByRank[stage.ranks[0]]) / sharing / stage.slotBytes);
    most.push_back(static_cast<int>(std::max(slots, held)));
  }
  return most;
}

Schedule searchRowsOf(const Planned &planned, const Planner &planner) {
  const Plan &plan = planned.plan;
  return searchRows(planner.computeRows(static_cast<int>(plan.stages.size())),
                    {plan.edges, playCosts(plan), mostInFlight(plan, planner), kSearchEffort});
}

} // namespace pdc
