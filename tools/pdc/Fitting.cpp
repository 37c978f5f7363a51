#include "tools/pdc/Fitting.h"

#include "compiler/Error.h"
#include "tools/pdc/BatchChoice.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace pdc {

/// By how much of the memory the planner's sums may be too large.
static constexpr double kMostOverestimated = 1.5;
/// What is planned to fill the memory is laid out to a little more or less.
static constexpr double kMargin = 0.995;
static constexpr int kMostPlans = 4;

Fitting::LaidOut Fitting::layOut(double allowance) {
  PlannedGraph graph = lowering.chooseGraph(allowance);
  if (atGraph)
    std::exchange(atGraph, nullptr)(*graph.module);
  const double planned = lowering.memoryShare(*graph.plan);
  lowering.cut(graph);
  lowering.outline(graph);
  lowering.schedule(graph);
  const double share = lowering.memoryShare(*graph.plan);
  return {std::move(graph), share, share > 0 ? planned / share : 1};
}

bool Fitting::recomputesByChoice(const Plan &plan) const {
  return options.plan.recompute.kind == RecomputeChoice::automatic &&
         std::ranges::any_of(plan.stages, &PlanStage::recompute);
}

/// What is recomputed for want of memory that is left may be kept.
PlannedGraph Fitting::recomputeLess(LaidOut found, double allowance) {
  const double next = kMargin * found.overestimate;
  if (!recomputesByChoice(*found.graph.plan) || next <= allowance)
    return std::move(found.graph);
  progress << "pdc: stages recompute, and the layout leaves memory: planning with more"
           << std::endl;
  try {
    LaidOut other = layOut(next);
    if (other.share <= 1 && secondsPerSample(other.graph) < secondsPerSample(found.graph))
      return std::move(other.graph);
  } catch (const Error &) { // It stays as it is.
  }
  return std::move(found.graph);
}

PlannedGraph Fitting::fit() {
  std::exception_ptr refusal; // the first says why nothing fits
  double allowance = 1;
  for (int plans = 0; plans < kMostPlans; ++plans) {
    std::optional<LaidOut> found;
    try {
      found = layOut(allowance);
      lowering.checkMemory(*found->graph.plan);
      return recomputeLess(std::move(*found), allowance);
    } catch (const MemoryError &) {
      refusal = refusal ? refusal : std::current_exception();
    }
    if (!found && plans > 0)
      break;
    progress << "pdc: "
             << (found ? "the layout needs more memory than was planned: planning with less"
                       : "too little memory by the planner's sums: laying out what needs more")
             << std::endl;
    allowance = found ? kMargin * found->overestimate : kMostOverestimated;
  }
  std::rethrow_exception(refusal);
}

} // namespace pdc
