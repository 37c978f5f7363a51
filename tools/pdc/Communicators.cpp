#include "tools/pdc/Communicators.h"

#include "compiler/Error.h"
#include "compiler/plan/Connections.h"
#include "compiler/plan/Cut.h"
#include "passes/ScheduleRows.h"

#include <algorithm>

using namespace mlir;

namespace pdc {

/// Times of the player that differ less are the same.
static constexpr double noise = 0.01;

static void addEdges(const Schedule &schedule, std::set<RankEdge> &edges) {
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const RankRows &rows = schedule.ranks[rank];
    for (const std::vector<Step> *part : {&rows.warmUp, &rows.repeat, &rows.drain})
      for (const Step &step : *part)
        if (step.kind == StepKind::send)
          edges.insert({static_cast<int>(rank), step.peer});
  }
}

/// Who sums gradients of a tied weight tells them all who gather them.
static void addEdgesOfTiedWeights(ModuleOp programs, std::set<RankEdge> &edges) {
  std::map<std::string, std::pair<std::vector<int>, std::vector<int>>> tied;
  for (auto program : programs.getOps<ir::ProgramOp>())
    for (auto memory : program.getOps<ir::MemoryOp>()) {
      const bool gathers = memory.getRole() == ir::Role::Gathered;
      if (!gathers && memory.getRole() != ir::Role::Gradient)
        continue;
      auto &[sum, gather] = tied[memory.getSymName().str()];
      for (int64_t rank : program.getRanks())
        (gathers ? gather : sum).push_back(static_cast<int>(rank));
    }
  for (const auto &[name, ranks] : tied)
    addGatherEdges(ranks.first, ranks.second, edges);
}

static std::set<RankEdge> withoutDirection(const std::set<RankEdge> &edges) {
  std::set<RankEdge> pairs;
  for (auto [from, to] : edges)
    pairs.insert({std::min(from, to), std::max(from, to)});
  return pairs;
}

/// By which the order of `pairs` makes training slower; none: it is not proven.
static std::optional<double> stallOfPairs(const Plan &plan, const TaggedEdges &edges,
                                          const Schedule &training, const Schedule &evaluation) {
  if (findDeadlockOfPairs(training) || findDeadlockOfPairs(evaluation))
    return std::nullopt;
  Plan real = plan;
  real.schedule = training;
  real.edges = edges.edges;
  const PlayCosts costs = playCosts(real);
  const double apart = secondsInQueues(training, costs, Arrangement::edges);
  const double together = secondsInQueues(training, costs, Arrangement::pairs);
  return apart > 0 ? std::max(0.0, together / apart - 1) : 0;
}

/// `edges` is proven by whole groups, as the rows are; `pairs` has more waits.
static Arrangement chooseArrangement(std::optional<double> stallOfPairs, const Schedule &schedule,
                                     const std::set<RankEdge> &edges) {
  const bool canHaveEdges = haveQueues(schedule.ranksOfStage, edges);
  if (stallOfPairs && (*stallOfPairs <= noise || !canHaveEdges))
    return Arrangement::pairs;
  if (canHaveEdges)
    return Arrangement::edges;
  throw Error(whyNotConnected());
}

void setCommunicators(Plan &plan, ModuleOp programs) {
  if (plan.device != "cuda")
    return;
  const TaggedEdges edges = findEdges(programs, Rows::training);
  const Schedule training = readSchedule(programs, Rows::training, edges);
  const Schedule evaluation =
      readSchedule(programs, Rows::evaluation, findEdges(programs, Rows::evaluation));
  std::set<RankEdge> tensors;
  addEdges(training, tensors);
  addEdges(evaluation, tensors);
  addEdgesOfTiedWeights(programs, tensors);
  PlanCommunicators &chosen = plan.communicators;
  chosen.stallOfPairs = stallOfPairs(plan, edges, training, evaluation);
  chosen.arrangement = chooseArrangement(chosen.stallOfPairs, training, tensors);
  const bool pairs = chosen.arrangement == Arrangement::pairs;
  chosen.count = static_cast<int>((pairs ? withoutDirection(tensors) : tensors).size() +
                                  countReplicaPairs(training.ranksOfStage));
  const std::vector<int64_t> bytes =
      connectionBytesOfStages(plan.device, training.ranksOfStage, tensors);
  chosen.bytes = 0;
  for (PlanStage &stage : plan.stages) {
    stage.memoryBytes += bytes[stage.id];
    chosen.bytes = std::max(chosen.bytes, bytes[stage.id]);
  }
}

} // namespace pdc
