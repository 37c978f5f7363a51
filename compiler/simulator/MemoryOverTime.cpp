#include "compiler/simulator/PlanSimulation.h"

#include "compiler/cost/ClosedForm.h"

#include <map>

namespace pdc {

/// The slots that a stage's memory was planned for.
static int64_t slotsOf(const Plan &plan, const PlanStage &stage) {
  return isClosedForm(plan.costModel) ? stage.inFlight : plan.schedule.slots[stage.id];
}

std::vector<std::vector<MemoryPoint>> memoryOverTime(const Plan &plan,
                                                     const PlanSimulation &simulation) {
  std::vector<std::vector<MemoryPoint>> ranks(simulation.busySeconds.size());
  std::vector<std::map<double, int64_t>> changes(ranks.size());
  std::vector<int64_t> always(ranks.size());
  for (const PlanStage &stage : plan.stages)
    for (int rank : stage.ranks)
      always[rank] += stage.memoryBytes - slotsOf(plan, stage) * stage.slotBytes;
  std::vector<bool> split = findSplitStages(plan.schedule);
  for (const Event &event : simulation.events) {
    const Task &task = event.task;
    int64_t bytes = plan.stages[task.stage].slotBytes;
    if (event.kind != StepKind::run)
      continue;
    if (task.phase == Phase::forward)
      changes[event.rank][event.start] += bytes;
    if (task.phase == (split[task.stage] ? Phase::backwardWeight : Phase::backward))
      changes[event.rank][event.end] -= bytes;
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].push_back({0, always[rank]});
    for (auto [seconds, change] : changes[rank])
      ranks[rank].push_back({seconds, ranks[rank].back().bytes + change});
  }
  return ranks;
}

} // namespace pdc
