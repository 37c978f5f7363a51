#include "tools/pdc/Lowering.h"

#include "codegen/Project.h"
#include "codegen/WriteFolder.h"
#include "compiler/Error.h"
#include "compiler/cost/ClosedForm.h"
#include "compiler/devices/Device.h"
#include "compiler/ir/Pdc.h"
#include "compiler/onnx/Annotate.h"
#include "compiler/onnx/Binding.h"
#include "compiler/onnx/Import.h"
#include "compiler/onnx/Safetensors.h"
#include "compiler/plan/Bounds.h"
#include "compiler/plan/Files.h"
#include "compiler/plan/Hints.h"
#include "compiler/plan/MakePlan.h"
#include "compiler/plan/PlanMemory.h"
#include "compiler/plan/PlannedRows.h"
#include "compiler/plan/Planner.h"
#include "compiler/plan/Profile.h"
#include "compiler/report/Report.h"
#include "compiler/schedule/Schedules.h"
#include "compiler/schedule/Text.h"
#include "passes/EstimatedSlowdowns.h"
#include "passes/Pipelines.h"
#include "passes/PlanGraph.h"
#include "passes/ProgramMemory.h"
#include "runtime/Cores.h"
#include "tools/pdc/Communicators.h"
#include "tools/pdc/Location.h"
#include "tools/pdc/Report.h"
#include "tools/pdc/Tries.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"

#include <algorithm>
#include <limits>
#include <utility>

using namespace mlir;

namespace pdc {

Lowering::Lowering(const Options &options, std::ostream &progress)
    : options(options), progress(progress) {
  context.disableMultithreading();
  context.loadDialect<ir::PdcDialect, func::FuncDialect>();
  context.printOpOnDiagnostic(false);
  context.printStackTraceOnDiagnostic(false);
  progress << "pdc: reading " << options.model.string() << std::endl;
  model = readModel(options.model, options.artifacts, options.dimensions);
  if (!model.sharded.empty())
    progress << "pdc: " << model.name << ": " << model.sharded
             << ": its sharding_spec is a hint that pdc does not follow; each stage computes whole "
                "tensors"
             << std::endl;
  usePartition();
}

/// Stages that the file's annotations say are stages by hand, unless the command line says others.
void Lowering::usePartition() {
  if (options.plan.stages || model.partitions.empty() || isClosedForm(options.plan.costModel))
    return;
  std::string names;
  const ModelPartition *chosen = nullptr;
  for (const ModelPartition &partition : model.partitions) {
    names += (names.empty() ? "'" : ", '") + partition.configuration + "'";
    if (model.partitions.size() > 1 && partition.devices != options.plan.workers)
      continue;
    if (chosen)
      throw Error(model.name + ": its device configurations '" + chosen->configuration + "' and '" +
                  partition.configuration + "' are both of " +
                  std::to_string(options.plan.workers) +
                  " devices; say which stages are wanted with --stages");
    chosen = &partition;
  }
  if (!chosen)
    throw Error(model.name + ": its device configurations " + names +
                " say stages, expected one of " + std::to_string(options.plan.workers) +
                " devices");
  hasPartition = true;
  options.plan.assignment = chosen->stages;
  options.plan.assignedBy = model.name + ": its pipeline_stage annotations";
  for (const auto &[node, stage] : chosen->stages)
    options.plan.stages = std::max(options.plan.stages, stage + 1);
  progress << "pdc: stages are those of the file's device configuration '" << chosen->configuration
           << "'; --stages says others" << std::endl;
}

/// Runs a pipeline; its first complaint becomes an Error.
void Lowering::lower(PlannedGraph &graph, const std::string &what,
                     const std::function<void(PassManager &)> &build) {
  progress << "pdc: " << what << std::endl;
  std::string complaint;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (complaint.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      complaint = diagnostic.str();
    if (diagnostic.getSeverity() != DiagnosticSeverity::Warning)
      return success();
    graph.warnings.insert(diagnostic.str());
    if (shownWarnings.insert(diagnostic.str()).second)
      progress << "warning: " << diagnostic.str() << std::endl;
    return success();
  });
  PassManager passes(&context);
  build(passes);
  if (failed(passes.run(*graph.module)))
    throw Error(complaint.empty() ? what + " failed without saying why" : complaint);
}

std::optional<Schedule> Lowering::rowsOfFile() const {
  if (isFileOfRows(options.plan.schedule))
    return parseSchedule(readTextFile(options.plan.schedule), options.plan.schedule);
  return std::nullopt;
}

bool Lowering::isAsynchronous() const {
  if (std::optional<Schedule> rows = rowsOfFile())
    return rows->asynchronous;
  return options.plan.schedule != "auto" && !findSchedule(options.plan.schedule).synchronous;
}

bool Lowering::sumsMicrobatches() const {
  if (std::optional<Schedule> rows = rowsOfFile())
    return rows->sumsMicrobatches();
  return options.plan.schedule == "auto" || findSchedule(options.plan.schedule).sumsMicrobatches;
}

static constexpr size_t kMostVerifiedNodes = 1'000;

PlannedGraph Lowering::makeGraph(int64_t microbatchSize) {
  ImportOptions import;
  if (!fixedMicrobatchSize(model))
    import.microbatchSize = microbatchSize;
  import.dimensions = options.dimensions;
  import.loss = options.loss;
  import.parameters = {options.train, options.freeze};
  PlannedGraph made;
  made.module = importModel(context, model, import);
  if (isAsynchronous())
    (*made.module)->setAttr("pdc.asynchronous", UnitAttr::get(&context));
  GraphOptions graph;
  graph.optimizer = optimizerOf(model, options);
  graph.noDecay = chooseUndecayed(
      model, options.optimizer,
      chooseParameters(model, chooseLoss(model, options.loss), import.parameters), options.noDecay);
  static_cast<Target &>(graph) = options.plan;
  if (options.plan.device == "cpu")
    graph.vectorWidth = detectDevice().vectorWidth;
  graph.profile = options.profile;
  graph.microbatchSize = microbatchSize;
  lower(made, "making the training graph for microbatches of " + std::to_string(microbatchSize),
        [&](PassManager &passes) {
          // That takes as long as what is verified. Graphs of other batches have the same nodes,
          // and all is verified again when it is cut: of a large graph that has to do.
          passes.enableVerifier(!std::exchange(isVerified, true) &&
                                model.nodes.size() < kMostVerifiedNodes);
          buildGraphPipeline(passes, graph);
        });
  return made;
}

PlanRequest Lowering::request(const Batch &batch, const PlanGraph &units) const {
  PlanRequest request = options.plan;
  if (!options.topology.empty())
    request.topology = readTopology(options.topology);
  // PipeDream's cost models give each worker a device of its own.
  request.cores = isClosedForm(request.costModel) ? 0 : runtime::usableCores();
  request.microbatches = batch.microbatches;
  // Annotations name each node of the file, also those that are computed here or become others.
  if (hasPartition) {
    std::set<std::string> names;
    for (const PlanUnit &unit : units.units)
      names.insert(unit.nodes.begin(), unit.nodes.end());
    std::erase_if(request.assignment,
                  [&](const auto &entry) { return !names.contains(entry.first); });
  }
  // A given number of microbatches counts those of a replica: batches say then how many there are.
  request.openReplicas = opensReplicas(options) && !options.microbatches;
  if (request.openReplicas && !sumsMicrobatches())
    request.inputReplicas = static_cast<int>(batch.inputReplicas);
  else if (request.replicas.empty() && batch.inputReplicas > 1) {
    request.replicas = {static_cast<int>(batch.inputReplicas)};
    request.stages = 1;
    request.openReplicas = false;
  }
  request.model = model.name;
  request.microbatchSize = batch.microbatchSize;
  return request;
}

/// PipeDream's cost models choose the replicas, and with them how many samples an update has.
void Lowering::checkMinibatch(const Plan &plan) const {
  if (!isClosedForm(plan.costModel) || plan.minibatch == options.minibatch.value_or(plan.minibatch))
    return;
  std::string found = std::to_string(plan.minibatch);
  throw Error("--minibatch " + std::to_string(*options.minibatch) + ": with microbatches of " +
              std::to_string(plan.microbatchSize) + " samples " + plan.costModel +
              " gives the first stage " + std::to_string(plan.stages[0].replicas) +
              " replicas, which makes " + found + " per update; what would help: --minibatch " +
              found + ", or --cost-model overlap with replicas by --stages");
}

static double secondsPerSample(const PlannedGraph &graph) {
  int64_t samples = graph.plan->schedule.sumsMicrobatches() ? graph.batch.minibatch()
                                                            : graph.batch.microbatchSize;
  return graph.plan->secondsPerMinibatch / static_cast<double>(samples);
}

/// Per sample, whatever the plan; 0 where that is not known.
double Lowering::leastSeconds(const Batch &batch, const PlanRequest &asked,
                              const PlanGraph &units) const {
  if (!sumsMicrobatches() || isClosedForm(asked.costModel))
    return 0;
  double update = leastSecondsOfUpdate(units, planHead(asked).topology, asked.threads,
                                       batch.microbatches * batch.inputReplicas);
  return update / static_cast<double>(batch.minibatch());
}

PlannedGraph Lowering::planFor(const std::vector<Batch> &batches, double limit) {
  PlannedGraph graph = makeGraph(batches[0].microbatchSize);
  auto units = std::make_shared<PlanGraph>(makePlanGraph(*graph.module));
  if (!options.profile.empty())
    copySlowdowns(*units, readProfile(options.profile));
  else if (options.plan.device == "cpu")
    addEstimatedSlowdowns(*units, *graph.module, options.plan.device, options.plan.threads);
  graph.units = units;
  Tries tries;
  for (const Batch &batch : batches)
    tries.make([&] {
      PlanRequest asked = request(batch, *units);
      if (leastSeconds(batch, asked, *units) >= limit)
        return;
      PlannedGraph candidate{{}, nullptr, units, batch, {}};
      candidate.plan = std::make_shared<Plan>(makePlanOfPrograms(*units, asked));
      checkMinibatch(*candidate.plan);
      if (!graph.plan || secondsPerSample(candidate) < secondsPerSample(graph)) {
        graph.plan = candidate.plan;
        graph.batch = batch;
      }
    });
  if (!graph.plan)
    tries.throwRefusal();
  return graph;
}

/// Measured seconds are those of one microbatch size: others are scaled where it can not be made,
/// and for data parallelism where its microbatches have no such size.
std::vector<Batch> Lowering::batches() const {
  std::vector<Batch> open = openBatches(model, options, sumsMicrobatches());
  int64_t size = options.profile.empty() ? 0 : readProfile(options.profile).microbatchSize;
  if (size <= 0 || isClosedForm(options.plan.costModel))
    return open;
  std::vector<Batch> chosen = batchesNear(size, open, model, options, sumsMicrobatches());
  for (const Batch &batch : chosen)
    if (batch.microbatchSize != size)
      progress << "pdc: " << options.profile << ": was measured with microbatches of " << size
               << " samples; its seconds are scaled to " << batch.microbatchSize << std::endl;
  return chosen;
}

/// Of equal ones larger microbatches, whose kernels wait less for one another.
static bool isBetter(const PlannedGraph &candidate, const PlannedGraph &best) {
  double seconds = secondsPerSample(candidate), others = secondsPerSample(best);
  return seconds < others ||
         (seconds == others && candidate.batch.microbatchSize > best.batch.microbatchSize);
}

void Lowering::leaveOut(SizeRange &sizes, int64_t slower, const PlannedGraph &best) {
  const bool smaller = slower < best.batch.microbatchSize;
  if (!sizes.leaveOutBeyond(slower, best.batch.microbatchSize))
    return;
  progress << "pdc: microbatches of " << (smaller ? "fewer" : "more") << " than " << slower
           << " samples are not planned: for " << best.units->units.size()
           << " units that takes long, and those of " << slower << " are slower than "
           << (smaller ? "larger" : "smaller") << " ones" << std::endl;
}

PlannedGraph Lowering::chooseGraph() {
  std::optional<PlannedGraph> best;
  Tries tries;
  SizeRange worthPlanning;
  for (const std::vector<Batch> &ofSize : bySize(batches(), options.plan.workers)) {
    const int64_t size = ofSize[0].microbatchSize;
    if (!worthPlanning.holds(size))
      continue;
    tries.make([&] {
      double limit = best ? secondsPerSample(*best) : std::numeric_limits<double>::infinity();
      PlannedGraph candidate = planFor(ofSize, limit);
      if (candidate.plan && (!best || isBetter(candidate, *best)))
        best = std::move(candidate);
      else if (best && slowerSizesTell(options, sumsMicrobatches(), candidate.units->units.size()))
        leaveOut(worthPlanning, size, *best);
    });
  }
  if (!best)
    tries.throwRefusal();
  auto plan = std::make_shared<Plan>(*best->plan);
  plan->hints = findHints(*plan, *best->units, request(best->batch, *best->units));
  best->plan = plan;
  return std::move(*best);
}

void Lowering::cut(PlannedGraph &graph) {
  lower(graph, "cutting the graph",
        [&](PassManager &passes) { buildCutPipeline(passes, graph.plan); });
}

void Lowering::outline(PlannedGraph &graph) {
  lower(graph, "outlining the stages",
        [&](PassManager &passes) { buildStagedPipeline(passes, graph.plan); });
}

void Lowering::schedule(PlannedGraph &graph) {
  lower(graph, "scheduling and proving",
        [&](PassManager &passes) { buildScheduledPipeline(passes, graph.plan); });
  auto plan = std::make_shared<Plan>(*graph.plan);
  setMemory(*plan, *graph.module);
  setCommunicators(*plan, *graph.module);
  checkMemory(*plan);
  graph.plan = plan;
}

/// The planner's sums are bounds for what it knows: layouts and libraries may take more.
void Lowering::checkMemory(const Plan &plan) const {
  std::vector<int64_t> bytes = memoryByRank(plan);
  for (int rank = 0; rank < static_cast<int>(bytes.size()); ++rank) {
    int64_t needed = bytes[rank], limit = plan.topology.memoryOf(std::span(&rank, 1));
    limit = options.plan.memoryBytes ? options.plan.memoryBytes : limit;
    if (limit && needed > limit)
      throw Error("rank " + std::to_string(rank) + " needs " + std::to_string(needed) +
                  " bytes of memory as it is laid out and a device has " + std::to_string(limit) +
                  " bytes: " + std::to_string(needed - limit) +
                  " bytes too few; what would help: " +
                  (options.plan.recompute.kind == RecomputeChoice::all ? "" : "--recompute all, ") +
                  "more workers or a smaller microbatch");
  }
}

/// What was warned of stands behind the plan.
static std::string withWarnings(std::string text, const std::set<std::string> &warnings) {
  for (const std::string &warning : warnings)
    text += "\nwarning: " + warning + "\n";
  return text;
}

void Lowering::write(const PlannedGraph &graph, const std::filesystem::path &folder) {
  progress << "pdc: writing " << folder.string() << std::endl;
  const Plan &plan = *graph.plan;
  std::vector<ProjectFile> files = printProject(*graph.module, plan, runtimePackage());
  files.push_back({"plan.json", printPlan(plan)});
  files.push_back({"plan.txt", withWarnings(describePlan(plan), graph.warnings)});
  files.push_back({"trace.json", predictTrace(plan, 3)});
  files.push_back({"report.html", printReport(plan, *graph.units)});
  writeFolder(folder, [&](const std::filesystem::path &filled) {
    for (const ProjectFile &file : files)
      writeFile(filled / file.name, file.text);
    writeWeights(model, filled / "weights.safetensors");
  });
  if (!options.annotated.empty())
    annotate(plan);
}

void Lowering::annotate(const Plan &plan) {
  ModelPartition partition{"pdc", options.plan.workers, {}};
  std::set<std::vector<int>> seen; // several stages may share their ranks
  std::string replicas;
  for (const PlanStage &stage : plan.stages) {
    for (const std::string &node : stage.nodes)
      partition.stages[node] = stage.id;
    if (seen.insert(stage.ranks).second)
      replicas += (replicas.empty() ? "" : "-") + std::to_string(stage.replicas);
  }
  writeAnnotated(options.model, model, partition, options.annotated);
  if (std::ranges::any_of(plan.stages, [](const PlanStage &stage) { return stage.replicas > 1; }))
    progress << "pdc: annotations say nothing of replicas, so that pdc reads no stages for "
             << options.plan.workers << " workers from " << options.annotated
             << "; to compile it the same way say --stages " << replicas << std::endl;
}

} // namespace pdc
