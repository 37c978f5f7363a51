#include "compiler/plan/MakePlan.h"

#include "compiler/Error.h"
#include "compiler/cost/ClosedForm.h"
#include "compiler/plan/Choice.h"
#include "compiler/plan/HierarchyPlan.h"
#include "compiler/plan/PlannedRows.h"
#include "compiler/plan/Profile.h"
#include "compiler/plan/Ways.h"

#include <algorithm>
#include <chrono>

namespace pdc {

namespace {

void checkRequest(const PlanGraph &graph, const PlanRequest &request) {
  checkGraph(graph, "the unit graph");
  if (graph.units.empty())
    throw Error("the model has no units to plan");
  if (request.workers < 1)
    throw Error("expected at least 1 worker, found " + std::to_string(request.workers));
  if (request.microbatches < 1)
    throw Error("expected at least 1 microbatch, found " + std::to_string(request.microbatches));
  if (request.topology && request.topology->workers() != request.workers)
    throw Error("the topology has " + std::to_string(request.topology->workers()) +
                " workers, expected " + std::to_string(request.workers));
  if (request.costModel != "overlap")
    findClosedForm(request.costModel);
  if (request.recompute.stages.empty())
    return;
  int stages = plannedStages(request);
  for (int stage : request.recompute.stages)
    if (stage < 0 || stage >= stages)
      throw Error("--recompute: there is no stage " + std::to_string(stage) + "; stages are 0 to " +
                  std::to_string(stages - 1));
}

Planned planUnderOverlap(const PlanGraph &graph, const PlanRequest &request) {
  if (opensWays(request))
    return chooseCompleted(graph, request);
  Planner planner(graph, request);
  return planner.complete(planner.improve(planner.make()));
}

} // namespace

bool RecomputeChoice::must(int stage) const {
  return kind == all || (kind == listed && std::ranges::find(stages, stage) != stages.end());
}

static Plan planWhole(const PlanGraph &graph, const PlanRequest &request, bool withRows) {
  auto start = std::chrono::steady_clock::now();
  checkRequest(graph, request);
  Plan plan = planHead(request);
  if (isClosedForm(request.costModel)) {
    std::vector<int> stageOfUnit = fillHierarchyPlan(plan, graph, request);
    if (withRows)
      addRows(plan, graph, request, std::move(stageOfUnit));
  } else {
    Planned planned = planUnderOverlap(graph, request);
    Planner(graph, request).describe(planned);
    plan = std::move(planned.plan);
  }
  plan.plannerSeconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

Plan makePlan(const PlanGraph &graph, const PlanRequest &request) {
  return planWhole(graph, request, false);
}

Plan makePlanOfPrograms(const PlanGraph &graph, const PlanRequest &request) {
  return planWhole(graph, request, true);
}

/// Runs played to improve the cut of a plan that only its seconds are asked of.
static constexpr int64_t kRunsPerTrial = 10'000;

double plannedSecondsPerMicrobatch(const PlanGraph &graph, const PlanRequest &request) {
  checkRequest(graph, request);
  if (isClosedForm(request.costModel))
    return hierarchySeconds(graph, request);
  auto perMicrobatch = [](const Plan &plan) {
    return plan.secondsPerMinibatch / static_cast<double>(plan.schedule.microbatches);
  };
  if (opensWays(request))
    return perMicrobatch(chooseTogether(graph, request).plan);
  Planner planner(graph, request);
  return perMicrobatch(planner.improve(planner.make(), kRunsPerTrial).plan);
}

} // namespace pdc
