#include "tools/pdc/BatchChoice.h"

#include "compiler/Error.h"
#include "compiler/cost/ClosedForm.h"
#include "compiler/onnx/Binding.h"
#include "compiler/plan/Baselines.h"
#include "compiler/plan/Bounds.h"
#include "compiler/plan/Expectation.h"
#include "compiler/plan/Files.h"
#include "compiler/plan/Hints.h"
#include "compiler/plan/MakePlan.h"
#include "compiler/plan/PlanMemory.h"
#include "compiler/plan/Planner.h"
#include "compiler/plan/Profile.h"
#include "compiler/schedule/Schedules.h"
#include "passes/EstimatedSlowdowns.h"
#include "passes/PlanGraph.h"
#include "runtime/Cores.h"
#include "tools/pdc/Report.h"

#include <algorithm>
#include <limits>
#include <set>

namespace pdc {

/// Plans of most networks under one schedule took 0.94 to 1.03 of the seconds that were expected
/// (README.md of compiler/plan): fewer where an uneven cut fills a pipeline sooner. Of all
/// schedules together the best is expected, which plans hardly beat.
static constexpr double kLeastOfExpectation = 0.95;

/// GPUs in one server, with NVLink between all of them.
static constexpr int kUsualOfServer = 8;

BatchChoice::BatchChoice(const BatchSubject &subject, MakeGraph makeGraph, std::ostream &progress)
    : subject(subject), options(subject.options), makeGraph(std::move(makeGraph)),
      progress(progress), topology(subject.options.plan.topology) {
  const int workers = options.plan.workers;
  if (topology)
    return;
  if (options.servers > 1)
    topology = assumedTopology(options.plan.device, options.servers, workers / options.servers);
  else if (!options.servers && options.plan.device != "cpu" && workers > kUsualOfServer)
    tell("--gpus " + std::to_string(workers) +
         ": are planned as one server with NVLink between all; for several servers give --gpus " +
         "SxG, as in 2x8, or --topology");
}

/// Nodes that the units have not; all stay where none is known, which an error then names.
static void leaveOutOthers(const PlanGraph &graph, std::map<std::string, int> &assignment) {
  std::set<std::string> names;
  for (const PlanUnit &unit : graph.units)
    names.insert(unit.nodes.begin(), unit.nodes.end());
  auto isOther = [&](const auto &entry) { return !names.contains(entry.first); };
  if (!std::ranges::all_of(assignment, isOther))
    std::erase_if(assignment, isOther);
}

PlanRequest BatchChoice::request(const Batch &batch, const PlanGraph &units) const {
  PlanRequest request = options.plan;
  request.topology = topology;
  // PipeDream's cost models give each worker a device of its own.
  request.cores = isClosedForm(request.costModel) ? 0 : runtime::usableCores();
  request.microbatches = batch.microbatches;
  // Annotations name each node of the file, also those that are computed here or become others.
  if (subject.hasPartition || request.assignedForOther)
    leaveOutOthers(units, request.assignment);
  // A given number of microbatches counts those of a replica: batches say then how many there are.
  request.openReplicas = opensReplicas(options) && !options.microbatches;
  if (request.openReplicas && !subject.sums)
    request.inputReplicas = static_cast<int>(batch.inputReplicas);
  else if (request.replicas.empty() && batch.inputReplicas > 1) {
    request.replicas = {static_cast<int>(batch.inputReplicas)};
    request.stages = 1;
    request.openReplicas = false;
  }
  request.model = subject.model.name;
  request.microbatchSize = batch.microbatchSize;
  request.memoryAllowance = subject.memoryAllowance;
  return request;
}

/// Once, of however many plans that are made.
void BatchChoice::tell(const std::string &text) const {
  if (subject.told.insert(text).second)
    progress << "pdc: " << text << std::endl;
}

/// PipeDream's cost models choose the replicas, and with them how many samples an update has.
void BatchChoice::checkMinibatch(const Plan &plan) const {
  if (!isClosedForm(plan.costModel) || plan.minibatch == options.minibatch.value_or(plan.minibatch))
    return;
  std::string found = std::to_string(plan.minibatch);
  throw Error("--minibatch " + std::to_string(*options.minibatch) + ": with microbatches of " +
              std::to_string(plan.microbatchSize) + " samples " + plan.costModel +
              " gives the first stage " + std::to_string(plan.stages[0].replicas) +
              " replicas, which makes " + found + " per update; what would help: --minibatch " +
              found + ", or --cost-model overlap with replicas by --stages");
}

int64_t BatchChoice::sizeOf(const Size &size) { return size[0].microbatchSize; }

double secondsPerSample(const PlannedGraph &graph) {
  int64_t samples = graph.plan->schedule.sumsMicrobatches() ? graph.batch.minibatch()
                                                            : graph.batch.microbatchSize;
  return graph.plan->secondsPerMinibatch / static_cast<double>(samples);
}

/// Per sample, whatever the plan; 0 where that is not known.
double BatchChoice::leastSeconds(const Batch &batch, const PlanRequest &asked,
                                 const PlanGraph &units) const {
  if (!subject.sums || isClosedForm(asked.costModel))
    return 0;
  double update = leastSecondsOfUpdate(units, planHead(asked).topology, asked.threads,
                                       batch.microbatches * batch.inputReplicas);
  return update / static_cast<double>(batch.minibatch());
}

/// Of equal ones larger microbatches, whose kernels wait less for one another.
static bool isBetter(const PlannedGraph &candidate, const PlannedGraph &best) {
  double seconds = secondsPerSample(candidate), others = secondsPerSample(best);
  return seconds < others ||
         (seconds == others && candidate.batch.microbatchSize > best.batch.microbatchSize);
}

/// Measured seconds are those of one microbatch size: others are scaled where it can not be made,
/// and for data parallelism where its microbatches have no such size.
std::vector<Batch> BatchChoice::batches() const {
  std::vector<Batch> open = openBatches(subject.model, options, subject.sums);
  if (options.profile.empty())
    return open;
  const Profile profile = readProfile(options.profile);
  const std::string optimizer = optimizerKind(subject.model, options);
  if (!profile.optimizer.empty() && profile.optimizer != optimizer)
    tell(options.profile + ": was measured with " + profile.optimizer +
         ", and its seconds of updates stand for those of " + optimizer);
  const int64_t size = profile.microbatchSize;
  if (size <= 0 || isClosedForm(options.plan.costModel))
    return open;
  std::vector<Batch> chosen = batchesNear(size, open, subject.model, options, subject.sums);
  for (const Batch &batch : chosen)
    if (batch.microbatchSize != size)
      tell(options.profile + ": was measured with microbatches of " + std::to_string(size) +
           " samples; its seconds are scaled to " + std::to_string(batch.microbatchSize));
  return chosen;
}

PlannedGraph &BatchChoice::graphOf(int64_t microbatchSize) {
  if (auto known = made.find(microbatchSize); known != made.end())
    return known->second;
  const std::string which = std::to_string(++begun) + " of " + std::to_string(sizeCount) + " sizes";
  PlannedGraph graph = graphWithUnits(microbatchSize, sizeCount > 1 ? " (" + which + ")" : "");
  return made.emplace(microbatchSize, std::move(graph)).first->second;
}

/// With the units that it is planned from.
PlannedGraph BatchChoice::graphWithUnits(int64_t microbatchSize, const std::string &which) const {
  PlannedGraph graph = makeGraph(microbatchSize, which);
  auto units = std::make_shared<PlanGraph>(makePlanGraph(*graph.module));
  if (!options.profile.empty())
    copySlowdowns(*units, readProfile(options.profile));
  else if (options.plan.device == "cpu")
    addEstimatedSlowdowns(*units, *graph.module, options.plan.device, options.plan.threads);
  graph.units = units;
  return graph;
}

/// Of a large graph, whose first two sizes tell what others promise: the most promising first.
/// Takes out sizes of which no graph can be made.
void BatchChoice::orderByExpectation(std::vector<Size> &sizes) {
  std::vector<WorkOfSizes::Known> known;
  std::shared_ptr<const PlanGraph> units;
  for (auto size = sizes.begin(); size != sizes.end() && known.size() < 2;) {
    if (!tries.make([&] { units = graphOf(sizeOf(*size)).units; })) {
      size = sizes.erase(size);
      continue;
    }
    if (!plansBestSizes(options, subject.sums, units->units.size()))
      return;
    known.push_back({sizeOf(*size++), Work(*units)});
  }
  if (known.size() < 2)
    return;
  const WorkOfSizes works(known[0], known[1]);
  for (const Size &size : sizes) {
    double least = std::numeric_limits<double>::infinity();
    for (const Batch &batch : size)
      least = std::min(
          least, expectedSecondsOfUpdate(works.of(batch.microbatchSize), request(batch, *units)) /
                     static_cast<double>(batch.minibatch()));
    expected[sizeOf(size)] = least;
  }
  std::ranges::stable_sort(sizes, {}, [&](const Size &size) { return expected[sizeOf(size)]; });
}

/// Whether a size may be faster than the best.
bool BatchChoice::promisesMore(const Size &size) const {
  if (!best || expected.empty())
    return true;
  const double least = options.plan.schedule == "auto" ? 1 : kLeastOfExpectation;
  return !liesBeyondSlower(sizeOf(size), best->batch.microbatchSize, planned) &&
         secondsPerSample(*best) > least * expected.at(sizeOf(size));
}

void BatchChoice::planBatch(PlannedGraph &graph, const Batch &batch) const {
  const double limit = best ? secondsPerSample(*best) : std::numeric_limits<double>::infinity();
  const PlanRequest asked = request(batch, *graph.units);
  if (leastSeconds(batch, asked, *graph.units) >= limit)
    return;
  PlannedGraph candidate{{}, nullptr, graph.units, batch, {}};
  candidate.plan = std::make_shared<Plan>(makePlanOfPrograms(*graph.units, asked));
  checkMinibatch(*candidate.plan);
  if (!graph.plan || secondsPerSample(candidate) < secondsPerSample(graph)) {
    graph.plan = candidate.plan;
    graph.batch = batch;
  }
}

void BatchChoice::plan(const Size &size) {
  graphOf(sizeOf(size));
  PlannedGraph graph = std::move(made.extract(sizeOf(size)).mapped());
  progress << "pdc: planning microbatches of " << sizeOf(size) << std::endl;
  Tries ofBatches;
  for (const Batch &batch : size)
    ofBatches.make([&] { planBatch(graph, batch); });
  if (!graph.plan)
    ofBatches.throwRefusal();
  planned.push_back(sizeOf(size));
  if (graph.plan && (!best || isBetter(graph, *best)))
    best = std::move(graph);
}

/// Whether the plan's estimate says that data parallelism is at least as fast, but of microbatches
/// of another size than its replicas have: smaller ones may take longer for each sample.
bool BatchChoice::mayMislead(const Plan &plan) const {
  const int workers = plan.topology.workers();
  const bool isDataParallel = plan.stages.size() == 1 && plan.stages[0].replicas > 1;
  return subject.sums && !isClosedForm(plan.costModel) && workers > 1 && !isDataParallel &&
         plan.schedule.microbatches % workers != 0 &&
         plan.dataParallelSecondsPerMinibatch <= plan.secondsPerMinibatch &&
         options.plan.recompute.stages.empty() && options.profile.empty() &&
         !fixedMicrobatchSize(subject.model, options.dimensions);
}

/// Plans what the best plan's estimate promises, where it may mislead: that plan's seconds stand
/// for the estimate, or it is the best one. An estimate of which no plan can be made stays one.
void BatchChoice::planDataParallelism() {
  if (!mayMislead(*best->plan))
    return;
  const int workers = best->plan->topology.workers();
  const int64_t minibatch = nearestSharedMinibatch(*best->plan);
  const bool isSameSize = minibatch / workers == best->batch.microbatchSize;
  PlannedGraph parallel;
  const bool isMade = Tries().make([&] {
    if (isSameSize)
      parallel.units = best->units;
    else
      parallel = graphWithUnits(minibatch / workers, " (for data parallelism)");
    PlanRequest asked = request({minibatch / workers, 1, workers}, *parallel.units);
    asked.schedule = schedules().front().name;
    asked.stages = 1;
    asked.replicas = {workers};
    asked.assignment.clear();
    parallel.plan = std::make_shared<Plan>(makePlanOfPrograms(*parallel.units, asked));
  });
  if (!isMade)
    return;
  parallel.batch = {minibatch / workers, 1, workers};
  // Who says into how many microbatches an update is cut has it cut so.
  if (opensDataParallelism(options) && !options.microbatches &&
      minibatch == best->batch.minibatch() && isBetter(parallel, *best)) {
    if (isSameSize)
      best->plan = parallel.plan, best->batch = parallel.batch;
    else
      best = std::move(parallel);
    return;
  }
  auto plan = std::make_shared<Plan>(*best->plan);
  plan->dataParallelSecondsPerMinibatch =
      secondsPerSample(parallel) * static_cast<double>(plan->minibatch);
  for (Baseline &baseline : plan->baselines)
    if (baseline.name == "data_parallel")
      baseline = {baseline.name,
                  plan->dataParallelSecondsPerMinibatch,
                  std::ranges::max(memoryByRank(*parallel.plan)),
                  parallel.plan->stages[0].recompute,
                  true,
                  true};
  best->plan = plan;
}

void BatchChoice::tellUnplanned(std::vector<int64_t> sizes) const {
  std::ranges::sort(sizes);
  std::string list;
  for (size_t i = 0; i < sizes.size(); ++i)
    list += (i == 0 ? "" : i + 1 < sizes.size() ? ", " : " and ") + std::to_string(sizes[i]);
  tell(
      "microbatches of " + list + " samples are not planned: for " +
      std::to_string(best->units->units.size()) +
      " units that takes long, and by the work of other sizes they promise no more than those of " +
      std::to_string(best->batch.microbatchSize));
}

PlannedGraph BatchChoice::choose() {
  std::vector<Size> sizes = bySize(batches(), options.plan.workers);
  sizeCount = sizes.size();
  if (sizes.size() > 1)
    orderByExpectation(sizes);
  std::vector<int64_t> unplanned;
  for (const Size &size : sizes)
    if (promisesMore(size))
      tries.make([&] { plan(size); });
    else
      unplanned.push_back(sizeOf(size));
  if (!best)
    tries.throwRefusal();
  if (!unplanned.empty())
    tellUnplanned(unplanned);
  planDataParallelism();
  auto plan = std::make_shared<Plan>(*best->plan);
  // What they promise is not laid out.
  subject.memoryAllowance = 1;
  plan->hints = findHints(*plan, *best->units, request(best->batch, *best->units));
  best->plan = plan;
  return std::move(*best);
}

} // namespace pdc
