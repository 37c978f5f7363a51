#include "passes/PlanChoice.h"

#include "compiler/Error.h"
#include "compiler/plan/Files.h"
#include "compiler/schedule/Transfers.h"

namespace pdc {

std::shared_ptr<const Plan> choosePlan(std::shared_ptr<const Plan> plan, const std::string &file) {
  if (plan || file.empty())
    return plan;
  return std::make_shared<const Plan>(readPlan(file));
}

std::vector<std::vector<int>> ranksOfStages(const Plan *plan, int stages) {
  std::vector<std::vector<int>> ranks;
  for (int stage = 0; stage < stages; ++stage) {
    bool planned = plan && stage < static_cast<int>(plan->stages.size());
    bool hasRanks = planned && !plan->stages[stage].ranks.empty();
    ranks.push_back(hasRanks ? plan->stages[stage].ranks : std::vector<int>{stage});
  }
  return ranks;
}

Pipeline pipelineOf(const Plan &plan, int stages) {
  Pipeline pipeline{stages, ranksOfStages(&plan, stages), plan.microbatches};
  pipeline.microbatches *= static_cast<int64_t>(pipeline.ranksOfStage[0].size());
  pipeline.verticalSync = plan.schedule.weightRule == WeightRule::atEntry;
  return pipeline;
}

Schedule withoutTransfers(Schedule schedule) {
  removeTransfers(schedule);
  return schedule;
}

Schedule computeRows(const Plan &plan, const Pipeline &pipeline) {
  return plan.schedule.ranks.empty() ? findSchedule(plan.scheduleName).make(pipeline)
                                     : withoutTransfers(plan.schedule);
}

} // namespace pdc
