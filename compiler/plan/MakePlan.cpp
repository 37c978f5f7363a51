#include "compiler/plan/MakePlan.h"

#include "compiler/Error.h"
#include "compiler/cost/ClosedForm.h"
#include "compiler/cost/Device.h"
#include "compiler/plan/Assignment.h"
#include "compiler/plan/Cut.h"
#include "compiler/plan/Files.h"
#include "compiler/plan/HierarchyPlan.h"
#include "compiler/plan/Partition.h"
#include "compiler/plan/Profile.h"
#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Rows.h"
#include "compiler/schedule/Schedules.h"
#include "compiler/schedule/Text.h"
#include "compiler/simulator/PlanSimulation.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace pdc {

namespace {

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double microbatchSeconds(const PlanUnit &unit) {
  return unit.forwardSeconds + unit.backwardInputSeconds + unit.backwardWeightSeconds;
}

/// Work of the whole model: per microbatch and per update.
struct Work {
  double microbatch = 0, update = 0, largest = 0;
  int64_t gradients = 0;

  explicit Work(const PlanGraph &graph) {
    for (const PlanUnit &unit : graph.units) {
      microbatch += microbatchSeconds(unit);
      largest = std::max(largest, microbatchSeconds(unit));
      update += unit.updateSeconds;
      gradients += unit.gradientBytes;
    }
  }
};

/// Whether every unit feeds the next and gets a gradient from it.
bool isChain(const PlanGraph &graph) {
  std::vector<bool> linked(graph.units.size());
  for (const PlanValue &value : graph.values)
    for (int consumer : value.consumers)
      if (value.hasGradient && consumer == value.producer + 1)
        linked[consumer] = true;
  return std::all_of(linked.begin() + 1, linked.end(), [](bool is) { return is; });
}

class Planner {
public:
  Planner(const PlanGraph &graph, const PlanRequest &request) : graph(graph), request(request) {}
  Plan make();

private:
  void checkRequest() const;
  Topology chooseTopology() const;
  Schedule computeRows(int stages) const;
  std::vector<int> replicasOf(int stages) const;
  void checkReplicas() const;
  std::vector<int> cut();
  std::vector<StageMemory> sumMemory(const std::vector<int> &stageOfUnit) const;
  std::vector<StageDepth> findDepths() const;
  void addDepths();
  void addMemory(const std::vector<StageMemory> &sums);
  void checkMemory(const std::vector<StageMemory> &sums) const;
  void predict();
  int64_t memoryLimit() const {
    return request.memoryBytes ? request.memoryBytes : plan.topology.memoryBytes;
  }

  const PlanGraph &graph;
  const PlanRequest &request;
  Plan plan;
};

void Planner::checkRequest() const {
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
  for (int stage : request.recompute.stages)
    if (stage < 0 || stage >= (request.stages ? request.stages : request.workers))
      throw Error("recompute: there is no stage " + std::to_string(stage) + "; stages are 0 to " +
                  std::to_string((request.stages ? request.stages : request.workers) - 1));
}

Topology Planner::chooseTopology() const {
  if (request.topology)
    return *request.topology;
  const DevicePeaks &peaks = findDevicePeaks(request.device);
  Topology topology;
  topology.levels = {{request.workers, {peaks.linkBytesPerSecond, peaks.linkSeconds}}};
  topology.memoryBytes = peaks.memoryBytes;
  topology.device = peaks.name;
  topology.cores = request.device == "cpu" ? request.cores : 0;
  return topology;
}

/// `auto` is 1f1b: as idle as gpipe, with fewer activations held.
Schedule Planner::computeRows(int stages) const {
  std::error_code error;
  if (std::filesystem::is_regular_file(request.schedule, error)) {
    Schedule rows = parseSchedule(readTextFile(request.schedule), request.schedule);
    if (rows.stages() != stages)
      throw Error(request.schedule + ": has " + std::to_string(rows.stages()) +
                  " stages, expected " + std::to_string(stages));
    int64_t microbatches = request.microbatches * rows.replicas(0);
    if (!rows.asynchronous && rows.microbatches != microbatches)
      throw Error(request.schedule + ": has " + std::to_string(rows.microbatches) +
                  " microbatches, expected " + std::to_string(microbatches));
    return rows;
  }
  const ScheduleKind &kind = findSchedule(request.schedule == "auto" ? "1f1b" : request.schedule);
  std::vector<int> replicas = replicasOf(stages);
  return kind.make(replicatedPipeline(replicas, request.microbatches * replicas[0]));
}

std::vector<int> Planner::replicasOf(int stages) const {
  if (static_cast<int>(request.replicas.size()) == stages)
    return request.replicas;
  return std::vector<int>(stages, 1);
}

/// One replica each unless the request says otherwise.
void Planner::checkReplicas() const {
  int ranks = 0;
  for (int count : request.replicas) {
    if (count < 1)
      throw Error("expected at least 1 replica of each stage, found " + std::to_string(count));
    ranks += count;
  }
  if (ranks > request.workers)
    throw Error("the stages have " + std::to_string(ranks) + " replicas, but there are " +
                std::to_string(request.workers) + " workers");
}

std::vector<int> Planner::cut() {
  if (!request.assignment.empty()) {
    std::vector<int> stages = applyAssignment(graph, request.assignment);
    int count = *std::ranges::max_element(stages) + 1;
    if (count != request.workers)
      throw Error("stages: " + std::to_string(count) +
                  " stages are named, expected one for each of " + std::to_string(request.workers) +
                  " workers");
    return stages;
  }
  checkReplicas();
  int stages = request.stages ? request.stages : request.workers;
  if (!request.replicas.empty())
    stages = static_cast<int>(request.replicas.size());
  if (stages < 1 || stages > request.workers)
    throw Error("expected 1 to " + std::to_string(request.workers) + " stages, found " +
                std::to_string(stages));
  if (static_cast<int>(graph.units.size()) < stages)
    throw Error("the model has " + std::to_string(graph.units.size()) +
                " units, which cannot fill " + std::to_string(stages) +
                " stages; use fewer workers");
  // Depths do not depend on where the cuts are, so a chain of that length tells them.
  Schedule rows = completeSchedule(computeRows(stages), chainEdges(stages));
  ChainRequest search;
  search.stages = stages;
  search.topology = plan.topology;
  search.ranksOfStage = rows.ranksOfStage;
  search.microbatches = [&](int stage) { return microbatchesPerUpdate(rows, stage); };
  search.memoryBytes = memoryLimit();
  search.recompute = request.recompute;
  search.slots = [&](int stage) { return rows.slots[stage]; };
  search.split = splitsBackward(rows);
  search.versions = [&](int stage) { return rows.versions[stage]; };
  std::optional<Partition> found = findChain(graph, search);
  if (!found) {
    // The fastest cut that needs least says by how much it does not fit.
    if (search.recompute.kind == RecomputeChoice::automatic)
      search.recompute.kind = RecomputeChoice::all;
    search.memoryBytes = 0;
    found = findChain(graph, search);
  }
  return stageOfUnit(*found, graph.units.size());
}

std::vector<StageMemory> Planner::sumMemory(const std::vector<int> &stageOfUnit) const {
  std::vector<MemorySum> sums(plan.stages.size());
  std::vector<int64_t> crossing(plan.stages.size());
  std::vector<bool> sends = findSenders(graph, stageOfUnit);
  std::vector<int64_t> temporaries = findTemporaries(graph);
  for (size_t i = 0; i < graph.units.size(); ++i) {
    PlanUnit unit = graph.units[i];
    unit.halfwayBytes = sends[i] ? unit.halfwayBytes : 0;
    sums[stageOfUnit[i]].add(unit, temporaries[i]);
  }
  for (const Edge &edge : plan.edges)
    for (int stage : {edge.fromStage, edge.toStage})
      crossing[stage] += edge.bytes;
  std::vector<StageMemory> result;
  for (size_t stage = 0; stage < sums.size(); ++stage)
    result.push_back(sums[stage].with(crossing[stage]));
  return result;
}

std::vector<StageDepth> Planner::findDepths() const {
  std::vector<StageDepth> depths;
  std::vector<bool> split = findSplitStages(plan.schedule);
  for (const PlanStage &stage : plan.stages)
    depths.push_back({plan.schedule.versions[stage.id], plan.schedule.slots[stage.id],
                      split[stage.id], std::ranges::any_of(plan.edges, [&](const Edge &edge) {
                        return edge.fromStage == stage.id && edge.producer == Phase::backward;
                      })});
  return depths;
}

/// A stage recomputes where it has to, and where that alone makes it fit.
void Planner::addMemory(const std::vector<StageMemory> &sums) {
  std::vector<StageDepth> depths = findDepths();
  for (PlanStage &stage : plan.stages) {
    int64_t sum = reductionBytes(stage);
    int64_t kept = sums[stage.id].total(depths[stage.id], false) + sum;
    int64_t recomputed = sums[stage.id].total(depths[stage.id], true) + sum;
    bool tooMuch = memoryLimit() && kept > memoryLimit() && recomputed < kept;
    bool recompute =
        request.recompute.must(stage.id) || (tooMuch && request.recompute.may(stage.id));
    if (recompute)
      addRecomputation(stage, depths[stage.id].sendsGradients);
    stage.memoryBytes = recompute ? recomputed : kept;
    StageDepth shallower = depths[stage.id];
    --shallower.slots;
    stage.slotBytes = stage.memoryBytes - sum - sums[stage.id].total(shallower, recompute);
  }
}

void Planner::addDepths() {
  std::vector<int> peaks =
      play(plan.schedule, plan.edges, playCosts(plan), TransferModel::overlapped,
           plan.schedule.asynchronous ? 2 * static_cast<int64_t>(plan.stages.size()) : 1)
          .peakActivations;
  for (PlanStage &stage : plan.stages) {
    stage.inFlight = peaks[stage.id];
    stage.weightVersions = plan.schedule.versions[stage.id];
  }
}

void Planner::checkMemory(const std::vector<StageMemory> &sums) const {
  int64_t limit = memoryLimit();
  auto worst = std::ranges::max_element(plan.stages, {}, &PlanStage::memoryBytes);
  if (!limit || worst->memoryBytes <= limit)
    return;
  std::string help = "more workers or a smaller microbatch";
  if (StageDepth depth = findDepths()[worst->id]; !worst->recompute) {
    int64_t recomputed = sums[worst->id].total(depth, true) + reductionBytes(*worst);
    if (recomputed < worst->memoryBytes)
      help = "--recompute auto (it would then need " + std::to_string(recomputed) + "), " + help;
  }
  if (plan.schedule.slots[worst->id] > 1)
    help += ", or a schedule that holds fewer than " +
            std::to_string(plan.schedule.slots[worst->id]) + " microbatches there";
  throw Error("stage " + std::to_string(worst->id) + " needs " +
              std::to_string(worst->memoryBytes) + " bytes of memory and a device has " +
              std::to_string(limit) + ": " + std::to_string(worst->memoryBytes - limit) +
              " too few" + (worst->recompute ? ", although it runs the forward pass again" : "") +
              "; what would help: " + help);
}

void Planner::predict() {
  bool asynchronous = plan.schedule.asynchronous;
  int64_t microbatches = plan.schedule.microbatches;
  Work work(graph);
  plan.secondsPerMinibatch = simulatedSecondsPerMinibatch(plan);
  plan.singleDeviceSecondsPerMinibatch =
      static_cast<double>(microbatches) * work.microbatch + work.update;
  plan.modelParallelSecondsPerMinibatch =
      modelParallelSeconds(plan, static_cast<double>(microbatches) * work.microbatch + work.update);
  plan.dataParallelSecondsPerMinibatch =
      dataParallelSeconds(graph, plan.topology, microbatches, asynchronous);
  double shared =
      static_cast<double>(microbatches) * work.microbatch / plan.topology.workersAtOnce();
  plan.boundSecondsPerMinibatch =
      std::max(shared, boundSeconds(graph, static_cast<int>(plan.stages.size()), plan.schedule));
}

Plan Planner::make() {
  auto start = std::chrono::steady_clock::now();
  checkRequest();
  plan.model = request.model;
  plan.device = request.device;
  plan.costModel = request.costModel;
  plan.exact = request.exact;
  plan.threads = request.threads;
  plan.microbatchSize = request.microbatchSize;
  plan.topology = chooseTopology();
  if (isClosedForm(plan.costModel)) {
    fillHierarchyPlan(plan, graph, request);
    plan.plannerSeconds = secondsSince(start);
    return std::move(plan);
  }
  std::vector<int> stages = cut();
  plan.edges = findEdges(graph, stages);
  plan.stages = makeStages(graph, stages, plan.edges);
  plan.schedule = completeSchedule(computeRows(static_cast<int>(plan.stages.size())), plan.edges);
  plan.scheduleName = plan.schedule.name;
  int64_t inputReplicas = plan.schedule.replicas(0);
  plan.microbatches = plan.schedule.asynchronous ? 1 : plan.schedule.microbatches / inputReplicas;
  plan.minibatch = plan.microbatches * inputReplicas * plan.microbatchSize;
  for (PlanStage &stage : plan.stages) {
    stage.ranks = plan.schedule.ranksOfStage[stage.id];
    stage.replicas = static_cast<int>(stage.ranks.size());
  }
  std::vector<StageMemory> sums = sumMemory(stages);
  addMemory(sums);
  addDepths();
  checkMemory(sums);
  predict();
  plan.plannerSeconds = secondsSince(start);
  return std::move(plan);
}

} // namespace

/// The least part of a unit's work that must be done before the units behind it can begin or after
/// they have ended.
static double leastShareInFront(const PlanGraph &graph, bool split) {
  double least = 1;
  for (const PlanUnit &unit : graph.units)
    if (double all = microbatchSeconds(unit); split && all > 0)
      least = std::min(least, unit.forwardSeconds / all);
  return isChain(graph) ? least : 0;
}

double boundSeconds(const PlanGraph &graph, int stages, const Schedule &schedule) {
  Work work(graph);
  double ranks = 0, most = 1;
  for (const std::vector<int> &replicas : schedule.ranksOfStage) {
    ranks += static_cast<double>(replicas.size());
    most = std::max(most, static_cast<double>(replicas.size()));
  }
  if (schedule.asynchronous)
    return std::max((work.microbatch + work.update / most) / ranks, work.largest / most);
  if (most > 1)
    return static_cast<double>(schedule.microbatches) *
           std::max(work.microbatch / ranks, work.largest / most);
  double count = static_cast<double>(schedule.microbatches);
  double share = leastShareInFront(graph, splitsBackward(schedule));
  double pipeline = share > 0 ? share * work.microbatch / (1 - std::pow(1 - share / count, stages))
                              : count * work.microbatch / stages;
  return std::max(pipeline, count * work.largest);
}

double dataParallelSeconds(const PlanGraph &graph, const Topology &topology, int64_t microbatches,
                           bool asynchronous) {
  Work work(graph);
  double workers = topology.workers(), atOnce = topology.workersAtOnce();
  Link slowest;
  for (const Level &level : topology.levels)
    if (level.workers > 1 &&
        (slowest.bytesPerSecond == 0 || level.link.bytesPerSecond < slowest.bytesPerSecond))
      slowest = level.link;
  double bytes = 2 * (workers - 1) / workers * static_cast<double>(work.gradients);
  double sum = slowest.bytesPerSecond > 0 ? bytes / slowest.bytesPerSecond : 0;
  sum += 2 * (workers - 1) * slowest.latencySeconds;
  if (asynchronous)
    return (work.microbatch + work.update) / atOnce + sum / workers;
  return static_cast<double>(microbatches) / atOnce * work.microbatch + sum +
         workers / atOnce * work.update;
}

bool RecomputeChoice::must(int stage) const {
  return kind == all || (kind == listed && std::ranges::find(stages, stage) != stages.end());
}

Plan makePlan(const PlanGraph &graph, const PlanRequest &request) {
  return Planner(graph, request).make();
}

} // namespace pdc
