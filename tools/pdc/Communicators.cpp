#include "tools/pdc/Communicators.h"

#include "compiler/plan/Cut.h"
#include "compiler/schedule/Arrangement.h"
#include "passes/ScheduleRows.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/FormatVariadic.h"

#include <set>

using namespace mlir;

namespace pdc {

/// What NCCL 2.28 keeps for each rank that another receives from: the buffers of its three
/// protocols (0.5, 4.7 and 4 MiB, in pieces of 2 MiB) for each of the channels that the runtime
/// allows. By its sources; not measured.
static constexpr int64_t connectionBytes = 4 * (int64_t(10) << 20);

/// The attribute of the module.
static constexpr llvm::StringLiteral kNoted = "pdc.communicators";

/// Times of the player that differ less are the same.
static constexpr double noise = 0.01;

using RankPair = std::pair<int, int>;

static void addEdges(const Schedule &schedule, std::set<RankPair> &edges) {
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const RankRows &rows = schedule.ranks[rank];
    for (const std::vector<Step> *part : {&rows.warmUp, &rows.repeat, &rows.drain})
      for (const Step &step : *part)
        if (step.kind == StepKind::send)
          edges.insert({static_cast<int>(rank), step.peer});
  }
}

/// From which rank to which tensors are sent.
static std::set<RankPair> findRankEdges(const Schedule &training, const Schedule &evaluation) {
  std::set<RankPair> edges;
  addEdges(training, edges);
  addEdges(evaluation, edges);
  return edges;
}

/// From which rank to which shares of sums over replicas are sent, by communicators of their own.
static std::set<RankPair> findReplicaEdges(const Schedule &training) {
  std::set<RankPair> edges;
  for (const std::vector<int> &replicas : training.ranksOfStage)
    for (int from : replicas)
      for (int to : replicas)
        if (from != to)
          edges.insert({from, to});
  return edges;
}

static std::set<RankPair> withoutDirection(const std::set<RankPair> &edges) {
  std::set<RankPair> pairs;
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
  return apart > 0 ? secondsInQueues(training, costs, Arrangement::pairs) / apart - 1 : 0;
}

static int64_t bytesOf(int rank, const std::set<RankPair> &edges) {
  return connectionBytes *
         llvm::count_if(edges, [&](RankPair edge) { return edge.second == rank; });
}

void setCommunicators(Plan &plan, ModuleOp programs) {
  if (plan.device != "cuda")
    return;
  const TaggedEdges edges = findEdges(programs, Rows::training);
  const Schedule training = readSchedule(programs, Rows::training, edges);
  const Schedule evaluation =
      readSchedule(programs, Rows::evaluation, findEdges(programs, Rows::evaluation));
  const std::set<RankPair> tensors = findRankEdges(training, evaluation);
  const std::set<RankPair> shares = findReplicaEdges(training);
  const std::optional<double> stall = stallOfPairs(plan, edges, training, evaluation);
  const bool holds = stall && *stall <= noise;
  const size_t count = (holds ? withoutDirection(tensors) : tensors).size() +
                       withoutDirection(shares).size();
  // The first stage of a rank has them.
  std::set<int> seen;
  int64_t bytes = 0;
  for (PlanStage &stage : plan.stages) {
    int64_t most = 0;
    for (int rank : stage.ranks)
      if (seen.insert(rank).second)
        most = std::max(most, bytesOf(rank, tensors) + bytesOf(rank, shares));
    stage.memoryBytes += most;
    bytes = std::max(bytes, most);
  }
  Builder builder(programs.getContext());
  NamedAttrList noted;
  noted.set("arrangement", builder.getStringAttr(holds ? "pairs" : "edges"));
  noted.set("count", builder.getI64IntegerAttr(static_cast<int64_t>(count)));
  noted.set("bytes", builder.getI64IntegerAttr(bytes));
  if (stall)
    noted.set("stall", builder.getF64FloatAttr(*stall));
  programs->setAttr(kNoted, noted.getDictionary(programs.getContext()));
}

std::string describeCommunicators(ModuleOp programs) {
  auto noted = programs->getAttrOfType<DictionaryAttr>(kNoted);
  if (!noted || noted.getAs<IntegerAttr>("count").getInt() == 0)
    return "";
  std::string slower = "without proof";
  if (auto stall = noted.getAs<FloatAttr>("stall"))
    slower = llvm::formatv("{0:F1} % slower", 100 * stall.getValueAsDouble()).str();
  const bool pairs = noted.getAs<StringAttr>("arrangement").getValue() == "pairs";
  const std::string why = pairs ? "one per pair of ranks, messages in the order of the rows: " + slower +
                                      " than one per directed edge"
                                : "one per directed edge, each in its own queue; one per pair: " + slower;
  return llvm::formatv("\n{0,-28} {1,+9}  {2}; about {3} MiB of the rank that receives from most\n",
                       "communicators", noted.getAs<IntegerAttr>("count").getInt(), why,
                       noted.getAs<IntegerAttr>("bytes").getInt() >> 20)
      .str();
}

} // namespace pdc
