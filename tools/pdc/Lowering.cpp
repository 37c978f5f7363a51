#include "tools/pdc/Lowering.h"

#include "codegen/Project.h"
#include "codegen/WriteFolder.h"
#include "compiler/Error.h"
#include "compiler/cost/ClosedForm.h"
#include "compiler/devices/Device.h"
#include "compiler/ir/Conversion.h"
#include "compiler/ir/Pdc.h"
#include "compiler/onnx/Annotate.h"
#include "compiler/onnx/Binding.h"
#include "compiler/onnx/Import.h"
#include "compiler/onnx/Safetensors.h"
#include "compiler/plan/Files.h"
#include "compiler/plan/PlanMemory.h"
#include "compiler/plan/PlannedRows.h"
#include "compiler/report/Report.h"
#include "compiler/schedule/Schedules.h"
#include "compiler/schedule/Text.h"
#include "passes/Pipelines.h"
#include "passes/PlanGraph.h"
#include "passes/ProgramMemory.h"
#include "tools/pdc/BatchChoice.h"
#include "tools/pdc/Communicators.h"
#include "tools/pdc/Location.h"
#include "tools/pdc/Report.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"

#include <algorithm>
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
  readSchedule();
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

void Lowering::readSchedule() {
  const std::string &schedule = options.plan.schedule;
  if (isFileOfRows(schedule)) {
    const Schedule rows = parseSchedule(readTextFile(schedule), schedule);
    isAsynchronous = rows.asynchronous;
    sumsMicrobatches = rows.sumsMicrobatches();
  } else if (schedule != "auto") {
    isAsynchronous = !findSchedule(schedule).synchronous;
    sumsMicrobatches = findSchedule(schedule).sumsMicrobatches;
  }
}

static constexpr size_t kMostVerifiedNodes = 1'000;

PlannedGraph Lowering::makeGraph(int64_t microbatchSize, const std::string &which) {
  ImportOptions import;
  if (!fixedMicrobatchSize(model))
    import.microbatchSize = microbatchSize;
  import.dimensions = options.dimensions;
  import.loss = options.loss;
  import.parameters = {options.train, options.freeze};
  PlannedGraph made;
  made.module = importModel(context, model, import);
  if (isAsynchronous)
    (*made.module)->setAttr("pdc.asynchronous", UnitAttr::get(&context));
  GraphOptions graph;
  graph.optimizer = optimizerOf(model, options);
  const UpdateGroups groups = chooseGroups(
      model, options.optimizer,
      chooseParameters(model, chooseLoss(model, options.loss), import.parameters), options.groups);
  graph.noDecay = groups.noDecay;
  graph.lrScale = groups.lrScale;
  static_cast<Target &>(graph) = options.plan;
  if (options.plan.device == "cpu")
    graph.vectorWidth = detectDevice().vectorWidth;
  graph.profile = options.profile;
  graph.microbatchSize = microbatchSize;
  lower(made,
        "making the training graph for microbatches of " + std::to_string(microbatchSize) + which,
        [&](PassManager &passes) {
          // That takes as long as what is verified. Graphs of other batches have the same nodes,
          // and all is verified again when it is cut: of a large graph that has to do.
          passes.enableVerifier(!std::exchange(isVerified, true) &&
                                model.nodes.size() < kMostVerifiedNodes);
          buildGraphPipeline(passes, graph);
        });
  return made;
}

PlannedGraph Lowering::chooseGraph(double memoryAllowance) {
  auto make = [&](int64_t microbatchSize, const std::string &which) {
    return makeGraph(microbatchSize, which);
  };
  const BatchSubject subject{model, options, sumsMicrobatches, hasPartition, memoryAllowance, told};
  return BatchChoice(subject, make, progress).choose();
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
  graph.plan = plan;
}

/// 0: not limited.
int64_t Lowering::memoryOf(const Plan &plan, int rank) const {
  return deviceBytes(plan.topology, std::span(&rank, 1), options.plan.memoryBytes);
}

double Lowering::memoryShare(const Plan &plan) const {
  const std::vector<int64_t> bytes = memoryByRank(plan);
  double most = 0;
  for (int rank = 0; rank < static_cast<int>(bytes.size()); ++rank)
    if (const int64_t limit = memoryOf(plan, rank))
      most = std::max(most, static_cast<double>(bytes[rank]) / static_cast<double>(limit));
  return most;
}

/// The planner's sums are near it, not equal.
void Lowering::checkMemory(const Plan &plan) const {
  const std::vector<int64_t> bytes = memoryByRank(plan);
  const RecomputeChoice &choice = options.plan.recompute;
  const bool mayRecompute =
      choice.kind == RecomputeChoice::all || choice.kind == RecomputeChoice::automatic;
  for (int rank = 0; rank < static_cast<int>(bytes.size()); ++rank) {
    const int64_t needed = bytes[rank], limit = memoryOf(plan, rank);
    if (limit && needed > limit)
      throw MemoryError(
          "rank " + std::to_string(rank) + " needs " + std::to_string(needed) +
          " bytes of memory as it is laid out and a device has " + std::to_string(limit) +
          " bytes: " + std::to_string(needed - limit) + " bytes too few; what would help: " +
          (mayRecompute ? "" : "--recompute auto, ") + "more workers or a smaller microbatch");
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
  PredictedTrace trace = predictTrace(plan, 3);
  if (!trace.leftOut.empty())
    progress << "pdc: trace.json leaves out " << trace.leftOut << std::endl;
  files.push_back({"trace.json", std::move(trace.text)});
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
