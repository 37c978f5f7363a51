// pdc-profile MODEL.onnx: measures the units of a model on this machine and writes profile.json.
// pdc-profile --links FILE: measures the links between ranks.

#include "compiler/plan/Bounds.h"
#include "compiler/plan/Files.h"
#include "compiler/plan/Profile.h"
#include "passes/PlanGraph.h"
#include "runtime/Cores.h"
#include "tools/Command.h"
#include "tools/pdc-profile/DrawnData.h"
#include "tools/pdc-profile/FreeMemory.h"
#include "tools/pdc-profile/Links.h"
#include "tools/pdc-profile/Measurement.h"
#include "tools/pdc-profile/ProfileTable.h"
#include "tools/pdc/Lowering.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>

namespace fs = std::filesystem;
using mlir::ModuleOp;

namespace pdc {

namespace {

struct Request {
  Options compile;
  std::string device = "cpu", output = "profile.json", sources, links;
  std::vector<std::string> dimensions;
  int64_t steps = 20;
};

/// A folder for the measuring program: the one that was asked for, or one that goes with this.
class WorkFolder {
public:
  explicit WorkFolder(const std::string &wanted) : path(wanted), stays(!wanted.empty()) {
    if (stays)
      return;
    std::string name = (fs::temp_directory_path() / "pdc-profile-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw Error(name + ": cannot be created; set TMPDIR, or give --sources DIR");
    path = name;
  }
  WorkFolder(const WorkFolder &) = delete;
  ~WorkFolder() {
    std::error_code ignored;
    if (!stays)
      fs::remove_all(path, ignored);
  }

  /// Made by pdc, so not there before.
  fs::path project() const { return stays ? path : path / "project"; }

private:
  fs::path path;
  bool stays;
};

std::optional<int> parse(int argc, char **argv, Request &request) {
  CLI::App app("Measures the units of a model on this machine and writes profile.json, from which "
               "pdc --profile plans.",
               "pdc-profile");
  nameUsageErrors(app);
  app.add_option("model", request.compile.model, "the model")->type_name("MODEL.onnx");
  auto add = [&](const char *name, auto &value, const char *kind, const char *text) {
    app.add_option(name, value, text)->type_name(kind);
  };
  add("-o", request.output, "FILE", "where the profile goes (profile.json)");
  addModelOptions(app, request.compile, request.dimensions);
  add("--device", request.device, "KIND", "cpu");
  add("--steps", request.steps, "N", "updates to measure (20)");
  add("--sources", request.sources, "DIR", "keep the measuring program there");
  add("--links", request.links, "FILE",
      "instead: measure the links between the ranks that mpirun has started, as a topology");
  try {
    app.parse(argc, argv);
    if (request.links.empty() && request.compile.model.empty())
      throw CLI::RequiredError("MODEL.onnx");
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!request.links.empty())
    return std::nullopt;
  checkModelOptions(request.dimensions, request.compile);
  checkChoice("--device", request.device, {"cpu"}, {"cuda"});
  if (request.steps < 1 || request.steps > 1000000)
    throw UsageError("--steps " + std::to_string(request.steps) + ": expected 1 to 1000000");
  request.compile.plan.workers = request.compile.plan.stages = 1;
  return std::nullopt;
}

/// Seconds between the quartiles, per unit of the plan graph: the sum over its own units.
std::vector<double> spreadsOf(ModuleOp module, const UnitTimes &times) {
  UnitTimes widths;
  for (const auto &[name, time] : times)
    widths[name].seconds = time.upperQuartile - time.lowerQuartile;
  applyTimes(module, widths);
  std::vector<double> spreads;
  for (const PlanUnit &unit : makePlanGraph(module).units)
    spreads.push_back(unit.forwardSeconds + unit.backwardInputSeconds + unit.backwardWeightSeconds +
                      unit.updateSeconds);
  return spreads;
}

/// Of units that have their estimates still.
std::map<std::string, KernelTimes> kernelTimes(ModuleOp module, const UnitTimes &times) {
  std::map<std::string, KernelTimes> kernels;
  for (auto unit : module.lookupSymbol<mlir::func::FuncOp>("train").getOps<ir::UnitOp>())
    if (auto found = times.find(unit.getName().str()); unit.getKernel() && found != times.end()) {
      KernelTimes &sum = kernels[unit.getKernel()->getName().str()];
      ++sum.units;
      sum.measured += found->second.seconds;
      sum.estimated += unit.getSeconds()->convertToDouble();
      sum.flops += unit.getFlops()->convertToDouble();
      sum.bytes += unit.getBytes()->convertToDouble();
    }
  return kernels;
}

/// How many copies of the program run beside it: one for each other core that may be used and that
/// the memory suffices for.
struct CopyCount {
  int wanted = 0, fitting = 0;
};

CopyCount countCopies(int threads, const Plan &plan) {
  CopyCount count;
  count.wanted = count.fitting = std::max(0, runtime::usableCores() / threads - 1);
  int64_t bytes = 0;
  for (const PlanStage &stage : plan.stages)
    bytes += stage.memoryBytes;
  if (int64_t available = availableBytes(); available > 0 && bytes > 0)
    count.fitting = static_cast<int>(std::clamp<int64_t>(available / bytes - 1, 0, count.wanted));
  return count;
}

/// What units take while the other cores compute, too.
void addSlowdowns(PlanGraph &graph, const PlanGraph &slowed) {
  for (size_t i = 0; i < graph.units.size(); ++i)
    if (double alone = microbatchSeconds(graph.units[i]); alone > 0)
      graph.units[i].slowdown =
          std::clamp(microbatchSeconds(slowed.units[i]) / alone, 1.0, kMostSlowdown);
}

std::string slowdownLine(const PlanGraph &graph, const CopyCount &copies) {
  std::string text;
  if (copies.fitting > 0) {
    char line[100];
    std::snprintf(line, sizeof line, "\nwhile %d more did the same: %.2f times as long\n",
                  copies.fitting, Work(graph).slowdown);
    text = line;
  }
  if (copies.fitting < copies.wanted)
    text += "\nthe memory that is free holds " + std::to_string(copies.fitting) + " more of the " +
            std::to_string(copies.wanted) +
            " that the other cores would run: where all compute, units may take longer than the "
            "profile says\n";
  return text;
}

/// Measures alone, then beside copies; what runs alone says how long copies may take at most.
struct Measured {
  UnitTimes alone, beside;
};

Measured measure(const fs::path &project, const std::vector<std::string> &numbers,
                 const std::vector<std::string> &data, int64_t steps, int copies) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  Measured times;
  times.alone = times.beside = measureUnits(project, numbers, data, steps);
  auto taken = std::chrono::ceil<std::chrono::seconds>(Clock::now() - start);
  if (copies > 0)
    times.beside =
        measureUnits(project, numbers, data, steps, {copies, std::chrono::minutes(1) + 20 * taken});
  return times;
}

void run(const Request &request, std::ostream &progress) {
  // 1. The program that measures, and the graph that it was made of.
  Lowering lowering(request.compile, progress);
  PlannedGraph graph = lowering.chooseGraph();
  mlir::OwningOpRef<ModuleOp> units(graph.module->clone());
  lowering.cut(graph);
  lowering.outline(graph);
  lowering.schedule(graph);
  std::vector<std::string> numbers = numberUnits(*graph.module);
  WorkFolder folder(request.sources);
  fs::path project = folder.project();
  lowering.write(graph, project);
  // 2. What it measures.
  std::vector<std::string> data = writeDrawnData(*units, graph.batch.minibatch(), project);
  progress << "pdc-profile: building, and measuring " << request.steps << " updates" << std::endl;
  CopyCount copies = countCopies(request.compile.plan.threads, *graph.plan);
  auto [times, beside] = measure(project, numbers, data, request.steps, copies.fitting);
  // 3. The profile.
  PlanGraph estimated = makePlanGraph(*units);
  std::map<std::string, KernelTimes> kernels = kernelTimes(*units, times);
  std::vector<double> spreads = spreadsOf(*units, times);
  applyTimes(*units, beside);
  PlanGraph slowed = makePlanGraph(*units);
  applyTimes(*units, times);
  Profile profile{lowering.model.name, "cpu", request.compile.plan.threads,
                  graph.batch.microbatchSize, makePlanGraph(*units)};
  addSlowdowns(profile.graph, slowed);
  writeTextFile(request.output, printProfile(profile));
  std::cout << "microbatches of " << graph.batch.microbatchSize << " samples, "
            << request.compile.plan.threads
            << (request.compile.plan.threads == 1 ? " thread" : " threads")
            << "; spread: between the quartiles of the runs\n"
            << profileTable(profile.graph, estimated, spreads) << "\n"
            << kernelTable(kernels) << slowdownLine(profile.graph, copies)
            << "\nprofile: " << request.output << "\nnext: pdc " << request.compile.model.string()
            << " --profile " << request.output << " ...\n";
}

} // namespace

} // namespace pdc

int main(int argc, char **argv) {
  return pdc::runCommand([&] {
    pdc::Request request;
    if (std::optional<int> code = pdc::parse(argc, argv, request))
      return *code;
    if (request.links.empty())
      pdc::run(request, std::cerr);
    else
      pdc::measureLinks(request.links);
    return 0;
  });
}
