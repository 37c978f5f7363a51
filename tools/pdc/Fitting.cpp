#include "tools/pdc/Fitting.h"

#include "compiler/Error.h"
#include "tools/pdc/BatchChoice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace pdc {

/// By how much of the memory the planner's sums may be too large.
static constexpr double kMostOverestimated = 1.5;
/// What is planned to fill the memory is laid out to a little more or less.
static constexpr double kMargin = 0.995;
/// With less of it no stage that recomputes is likely to keep its activations instead.
static constexpr double kWorthwhile = 0.95;
static constexpr int kMostPlans = 5;

Fitting::LaidOut Fitting::layOut() {
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

/// What refuses the first plan is the user's; later ones fail where there is nothing between. Of
/// refusals the least layout says by how much it does not fit, and sums only where there is none.
std::optional<Fitting::LaidOut> Fitting::tryLayOut() {
  const bool isFirst = plans++ == 0;
  std::optional<LaidOut> found;
  try {
    found = layOut();
    lowering.checkMemory(*found->graph.plan);
  } catch (const MemoryError &error) {
    const double share = found ? found->share : std::numeric_limits<double>::infinity();
    if (refusal.empty() || share < leastShare) {
      refusal = error.what();
      leastShare = share;
    }
  } catch (const Error &) {
    if (isFirst)
      throw;
  }
  return found;
}

/// 0: none is left to try.
double Fitting::nextAllowance(const std::optional<LaidOut> &found) {
  if (!found)
    refused = std::max(refused, allowance);
  else
    tooLarge = std::min(tooLarge, allowance);
  if (std::isinf(tooLarge))
    return refused < kMostOverestimated ? kMostOverestimated : 0;
  const double next = found ? kMargin * found->overestimate : refused;
  return next > refused && next < tooLarge ? next : (refused + tooLarge) / 2;
}

bool Fitting::recomputesByChoice(const Plan &plan) const {
  return options.plan.recompute.kind == RecomputeChoice::automatic && !isRecomputingAll &&
         std::ranges::any_of(plan.stages, &PlanStage::recompute);
}

/// What is recomputed for want of memory that is left may be kept.
PlannedGraph Fitting::recomputeLess(LaidOut found) {
  const double next = std::min(kMargin * found.overestimate, (allowance + tooLarge) / 2);
  if (!recomputesByChoice(*found.graph.plan) || found.share > kWorthwhile || next <= allowance)
    return std::move(found.graph);
  progress << "pdc: stages recompute, and the layout leaves memory: planning with more"
           << std::endl;
  const double before = std::exchange(allowance, next);
  std::optional<LaidOut> other = tryLayOut();
  if (other && other->share <= 1 && secondsPerSample(other->graph) < secondsPerSample(found.graph))
    return std::move(other->graph);
  allowance = before;
  return std::move(found.graph);
}

/// What recomputes where the sums ask for it may be laid out to more than what recomputes all.
/// Where the sums refuse the former, they refuse the latter.
bool Fitting::recomputeAll() {
  if (options.plan.recompute.kind != RecomputeChoice::automatic || isRecomputingAll ||
      std::isinf(leastShare))
    return false;
  progress << "pdc: no plan that recomputes where it must fits: planning to recompute all stages"
           << std::endl;
  lowering.recomputeAll();
  isRecomputingAll = true;
  plans = 1;
  allowance = 1, refused = 0, tooLarge = std::numeric_limits<double>::infinity();
  return true;
}

PlannedGraph Fitting::fit() {
  for (;;) {
    std::optional<LaidOut> found = tryLayOut();
    if (found && found->share <= 1)
      return recomputeLess(std::move(*found));
    const double next = plans < kMostPlans ? nextAllowance(found) : 0;
    if (next == 0 && recomputeAll())
      continue;
    if (next == 0)
      throw MemoryError(refusal);
    progress << "pdc: "
             << (found ? "the layout needs more memory than was planned"
                       : "too little memory by the planner's sums")
             << ": planning with " << (next > allowance ? "more" : "less") << std::endl;
    allowance = next;
  }
}

PlannedGraph Fitting::planOnly() {
  try {
    return lowering.chooseGraph();
  } catch (const MemoryError &) {
    fit();
    return lowering.chooseGraph(allowance);
  }
}

} // namespace pdc
