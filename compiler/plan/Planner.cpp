#include "compiler/plan/Planner.h"

#include "compiler/Error.h"
#include "compiler/Tries.h"
#include "compiler/cost/Device.h"
#include "compiler/plan/Assignment.h"
#include "compiler/plan/Baselines.h"
#include "compiler/plan/Bounds.h"
#include "compiler/plan/Connections.h"
#include "compiler/plan/Files.h"
#include "compiler/plan/Improve.h"
#include "compiler/plan/Partition.h"
#include "compiler/plan/PlanMemory.h"
#include "compiler/plan/PlannedRows.h"
#include "compiler/plan/RankBalance.h"
#include "compiler/schedule/Arrangement.h"
#include "compiler/schedule/Proof.h"
#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Rhythm.h"
#include "compiler/schedule/Rows.h"
#include "compiler/schedule/Schedules.h"
#include "compiler/schedule/Slots.h"
#include "compiler/schedule/Transfers.h"
#include "compiler/simulator/PlanSimulation.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace pdc {

namespace {

Topology chooseTopology(const PlanRequest &request) {
  if (request.topology)
    return *request.topology;
  const int cores = request.device == "cpu" ? request.cores : 0;
  return assumedTopology(request.device, 1, request.workers, cores);
}

/// Compute rows with the slots and versions of a chain of that length.
Schedule withDepths(Schedule rows) {
  if (!rows.slots.empty())
    return rows;
  std::vector<Edge> edges = chainEdges(rows.stages());
  if (rows.ranks.empty()) {
    assignUnwrittenSlots(rows, edges);
    return rows;
  }
  Schedule chain = rows;
  placeTransfers(chain, edges);
  assignSlots(chain, edges);
  assignVersions(chain);
  rows.slots = chain.slots;
  rows.slotTable = chain.slotTable;
  rows.versions = chain.versions;
  return rows;
}

/// Whether something goes between all neighbours, both ways, and nothing else.
bool isChain(std::span<const Edge> edges, int stages) {
  std::set<std::pair<int, int>> ends;
  for (const Edge &edge : edges)
    ends.insert({edge.fromStage, edge.toStage});
  return ends.size() == 2 * static_cast<size_t>(stages - 1) &&
         std::ranges::all_of(ends,
                             [](auto pair) { return std::abs(pair.first - pair.second) == 1; });
}

bool hasSeveralPerRank(const Schedule &rows) {
  return sharesRanks(Pipeline{rows.stages(), rows.ranksOfStage, rows.microbatches});
}

void addDepths(Plan &plan) {
  const Schedule &schedule = plan.schedule;
  std::vector<int64_t> rounds = {schedule.asynchronous ? 2 * schedule.stages() : 0};
  const std::vector<int> peaks = schedule.ranks.empty()
                                     ? unwrittenPeaks(schedule)
                                     : peakActivations(unroll(schedule, rounds), schedule.stages());
  for (PlanStage &stage : plan.stages) {
    stage.inFlight = peaks[stage.id];
    stage.weightVersions = plan.schedule.versions[stage.id];
  }
}

} // namespace

Plan planHead(const PlanRequest &request) {
  Plan plan;
  static_cast<PlanSubject &>(plan) = request;
  plan.topology = chooseTopology(request);
  return plan;
}

Planner::Planner(const PlanGraph &graph, const PlanRequest &request, int64_t mostRuns)
    : graph(graph), request(request), mostRuns(mostRuns), head(planHead(request)) {}

int64_t Planner::memoryLimit(std::span<const int> ranks) const {
  return allowedBytes(head.topology, ranks, request);
}

Schedule Planner::computeRows(int stages) const { return plannedRows(request, stages, mostRuns); }

const Schedule &Planner::rowsWithDepths(int stages) const {
  auto found = rowsOfStages.find(stages);
  if (found == rowsOfStages.end())
    found = rowsOfStages.emplace(stages, withDepths(computeRows(stages))).first;
  return found->second;
}

int Planner::countStages() const {
  int stages = plannedStages(request);
  if (static_cast<int>(graph.units.size()) < stages)
    throw Error("the model has " + std::to_string(graph.units.size()) +
                " units, which cannot fill " + std::to_string(stages) +
                " stages; use fewer workers" + (request.chunks > 2 ? " or --chunks" : ""));
  return stages;
}

std::vector<int> Planner::assigned() const {
  std::vector<int> stages = applyAssignment(graph, request.assignment);
  int count = *std::ranges::max_element(stages) + 1;
  PlanRequest whole = request;
  whole.stages = 0;
  int expected = plannedStages(whole);
  std::string workers = std::to_string(request.workers) + " workers";
  if (count != expected)
    throw Error("stages: " + std::to_string(count) + " stages are named, expected " +
                (expected == request.workers
                     ? "one for each of " + workers
                     : std::to_string(expected) + ", as the schedule places them on " + workers));
  return stages;
}

std::vector<int> Planner::cutByHand() const {
  try {
    return assigned();
  } catch (const Error &error) {
    if (request.assignedBy.empty())
      throw;
    throw Error(request.assignedBy + ": " + error.what() +
                (request.assignedBy.starts_with("--stages")
                     ? "; without --stages the planner cuts"
                     : "; --stages says others, as in 3-1 (replicas of each stage)"));
  }
}

/// Of any cut, or of one whose stages all use one weight.
std::vector<int64_t> Planner::connectionBytesOfCuts(const Schedule &rows, bool tied) const {
  std::set<RankEdge> edges = rankEdges(rows.ranksOfStage, chainEdges(rows.stages()));
  if (tied) {
    std::vector<int> stages(rows.stages());
    std::iota(stages.begin(), stages.end(), 0);
    addTiedEdges(rows.ranksOfStage, stages, rows.asynchronous, edges);
  }
  return connectionBytesOfStages(request.device, rows.ranksOfStage, edges);
}

/// For the slowest stage, and where ranks have several stages for the heaviest rank; where a weight
/// may be used by several stages, also one that has room for all connections of its gradients; and
/// where ranks have several stages, also one in which each may take all of the memory.
std::vector<std::vector<int>> Planner::findCuts() const {
  if (!request.assignment.empty())
    return {cutByHand()};
  int stages = countStages();
  const Schedule &rows = rowsWithDepths(stages);
  ChainRequest search;
  search.stages = stages;
  search.topology = head.topology;
  search.ranksOfStage = rows.ranksOfStage;
  search.microbatches = [&](int stage) { return microbatchesPerUpdate(rows, stage); };
  // Stages of a rank share its device: a cut is good where each keeps to its part, beside the
  // connections that any cut has.
  std::vector<int64_t> connections = connectionBytesOfCuts(rows, false);
  bool isDivided = true;
  search.memoryBytes = [&](int stage) {
    const int64_t limit = memoryLimit(rows.ranksOfStage[stage]);
    int64_t sharing = 0, beside = 0;
    for (int other = 0; other < stages; ++other)
      if (rows.ranksOfStage[other] == rows.ranksOfStage[stage]) {
        ++sharing;
        beside += connections[other];
      }
    return limit ? std::max<int64_t>(1, (limit - beside) / (isDivided ? sharing : 1)) : 0;
  };
  search.recompute = request.recompute;
  search.slots = [&](int stage) { return rows.slots[stage]; };
  search.split = splitsBackward(rows);
  search.inputsBeside = holdsInputsBeside(request.device);
  search.spreads = request.device == "cpu";
  search.versions = [&](int stage) { return rows.versions[stage]; };
  std::optional<Partition> found = findChain(graph, search);
  const bool fits = found.has_value();
  if (!fits) {
    // The fastest cut that needs least says by how much it does not fit.
    if (search.recompute.kind == RecomputeChoice::automatic)
      search.recompute.kind = RecomputeChoice::all;
    search.memoryBytes = [](int) { return 0; };
    found = findChain(graph, search);
    if (!found)
      throw Error("the seconds of the " + std::to_string(graph.units.size()) +
                  " units have no end, expected a finite sum; measure the profile again, with "
                  "pdc-profile");
  }
  std::vector<std::vector<int>> cuts;
  auto add = [&](std::vector<int> cut) {
    if (std::ranges::find(cuts, cut) == cuts.end())
      cuts.push_back(std::move(cut));
  };
  auto addWithEven = [&](const Partition &partition) {
    const std::vector<int> cut = stageOfUnit(partition, graph.units.size());
    add(cut);
    if (hasSeveralPerRank(rows))
      add(balanceRanks(graph, search, cut));
  };
  addWithEven(*found);
  const bool isLimited = std::ranges::any_of(
      rows.ranksOfStage, [&](const std::vector<int> &ranks) { return memoryLimit(ranks) > 0; });
  if (!fits || !isLimited)
    return cuts;
  const std::vector<int64_t> ofTied = connectionBytesOfCuts(rows, !graph.tied.empty());
  if (ofTied != std::exchange(connections, ofTied))
    if (std::optional<Partition> roomier = findChain(graph, search))
      add(stageOfUnit(*roomier, graph.units.size()));
  // One stage of a rank may have more than its part where another has less.
  isDivided = false;
  if (hasSeveralPerRank(rows))
    if (std::optional<Partition> uneven = findChain(graph, search))
      addWithEven(*uneven);
  return cuts;
}

/// The cut that is played fastest of those that fit; the first says why none does.
Planned Planner::make() const {
  std::optional<Planned> fastest;
  Tries tries;
  for (const std::vector<int> &cut : findCuts())
    tries.make([&] {
      Planned planned = makeWith(cut, rowsWithDepths(*std::ranges::max_element(cut) + 1));
      if (!fastest || planned.plan.secondsPerMinibatch < fastest->plan.secondsPerMinibatch)
        fastest = std::move(planned);
    });
  if (!fastest)
    tries.throwRefusal();
  return std::move(*fastest);
}

Planned Planner::improve(Planned planned, int64_t runs) const {
  if (!request.assignment.empty())
    return planned;
  std::optional<std::vector<int>> better = improveCut(graph, request, planned, runs);
  return better ? makeWith(*better, rowsWithDepths(static_cast<int>(planned.plan.stages.size())))
                : planned;
}

Planned Planner::makeWith(std::vector<int> stageOfUnit, const Schedule &rows) const {
  return makeOf(std::move(stageOfUnit), withDepths(rows), false);
}

/// Where NCCL moves the messages, in an order that is proven.
static void requireConnections(const Planned &planned) {
  const Plan &plan = planned.plan;
  if (plan.device == "cuda" &&
      !haveQueues(plan.schedule.ranksOfStage, rankEdges(plan, planned.memory.tied)) &&
      findDeadlockOfPairs(plan.schedule))
    throw Error(whyNotConnected());
}

Planned Planner::complete(const Planned &planned) const {
  if (!planned.plan.schedule.ranks.empty()) {
    Planned whole = makeOf(planned.stageOfUnit, planned.plan.schedule, true);
    requireConnections(whole);
    return whole;
  }
  Schedule rows = planned.plan.schedule;
  if (!isChain(planned.plan.edges, rows.stages())) // which it was planned for
    assignUnwrittenSlots(rows, planned.plan.edges);
  Planned held = holdOf(planned.stageOfUnit, rows, false);
  const bool isAlike = std::ranges::equal(held.plan.stages, planned.plan.stages, {},
                                          &PlanStage::recompute, &PlanStage::recompute);
  held.plan.secondsPerMinibatch =
      isAlike ? planned.plan.secondsPerMinibatch : simulatedSecondsPerMinibatch(held.plan);
  return held;
}

Planned Planner::makeOf(std::vector<int> stageOfUnit, const Schedule &rows, bool complete) const {
  Planned planned = holdOf(std::move(stageOfUnit), rows, complete);
  planned.plan.secondsPerMinibatch = simulatedSecondsPerMinibatch(planned.plan);
  return planned;
}

Planned Planner::holdOf(std::vector<int> stageOfUnit, const Schedule &rows, bool complete) const {
  Planned planned{head, std::move(stageOfUnit), {}};
  Plan &plan = planned.plan;
  plan.edges = findEdges(graph, planned.stageOfUnit);
  plan.stages = makeStages(graph, planned.stageOfUnit, plan.edges);
  plan.schedule = complete ? completeSchedule(rows, plan.edges) : rows;
  if (complete && plan.exact)
    checkOrder(plan.schedule, plan.edges);
  plan.scheduleName = plan.schedule.name;
  int64_t inputReplicas = plan.schedule.replicas(0);
  plan.microbatches =
      plan.schedule.sumsMicrobatches() ? plan.schedule.microbatches / inputReplicas : 1;
  plan.minibatch = plan.microbatches * inputReplicas * plan.microbatchSize;
  addUpdateRule(plan.stages, graph, planned.stageOfUnit, plan.schedule);
  for (PlanStage &stage : plan.stages) {
    stage.ranks = plan.schedule.ranksOfStage[stage.id];
    stage.replicas = static_cast<int>(stage.ranks.size());
  }
  planned.memory = sumMemory(graph, planned.stageOfUnit, plan.edges);
  addMemory(plan, planned.memory, request.recompute, request);
  addDepths(plan);
  checkMemory(plan, planned.memory, request);
  return planned;
}

void Planner::describe(Planned &planned) const {
  Plan &plan = planned.plan;
  Work work(graph);
  auto microbatches = static_cast<double>(plan.schedule.microbatches);
  double alone =
      microbatches * work.microbatch + (microbatches - 1) * work.accumulation + work.update;
  plan.singleDeviceSecondsPerMinibatch = alone;
  plan.modelParallelSecondsPerMinibatch = modelParallelSeconds(plan, alone);
  plan.dataParallelSecondsPerMinibatch =
      dataParallelSeconds(graph, plan.topology, plan.threads, plan.schedule.microbatches,
                          !plan.schedule.sumsMicrobatches());
  double shared = microbatches * work.microbatch / plan.topology.workersAtOnce(plan.threads);
  plan.boundSecondsPerMinibatch =
      std::max(shared, boundSeconds(graph, static_cast<int>(plan.stages.size()), plan.schedule));
  plan.bounds = findBounds(plan);
  std::vector<int> one(graph.units.size(), 0);
  plan.baselines = findBaselines(plan, {planned.memory, sumMemory(graph, one, {}).stages[0],
                                        request.recompute, request.memoryBytes});
}

} // namespace pdc
