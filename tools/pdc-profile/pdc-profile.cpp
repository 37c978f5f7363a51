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
#include "tools/pdc-profile/MeasuringProgram.h"
#include "tools/pdc-profile/ProfileTable.h"
#include "tools/pdc/Lowering.h"
#include "tools/pdc/Report.h"

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
  std::string device = "cpu", precision = "fp32", output = "profile.json", sources, links, times, kernels;
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
  add("--device", request.device, "KIND", "cpu, or cuda: writes a program to build and run there");
  add("--precision", request.precision, "TYPE", "fp32; with --device cuda also tf32, bf16, fp16");
  add("--steps", request.steps, "N", "updates to measure (20)");
  add("--sources", request.sources, "DIR", "keep the measuring program there");
  add("--kernels", request.kernels, "FILE",
      "each unit's kernel beside its estimate, as comma-separated values");
  add("--times", request.times, "FILE", "cuda: make the profile of what that program has written");
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
  checkChoice("--device", request.device, {"cpu", "cuda"}, {});
  if (!request.times.empty() && request.device != "cuda")
    throw UsageError("--times: expected with --device cuda, found --device " + request.device);
  request.compile.plan.device = request.device;
  request.compile.plan.precision = parsePrecision(request.precision, request.device);
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
std::vector<KernelTimes> kernelTimes(ModuleOp module, const UnitTimes &times) {
  std::vector<KernelTimes> kernels;
  for (auto unit : module.lookupSymbol<mlir::func::FuncOp>("train").getOps<ir::UnitOp>())
    if (auto found = times.find(unit.getName().str()); unit.getKernel() && found != times.end())
      kernels.push_back({unit.getName().str(), unit.getKernel()->getName().str(),
                         found->second.seconds, unit.getSeconds()->convertToDouble(),
                         unit.getFlops()->convertToDouble(), unit.getBytes()->convertToDouble()});
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

std::string slowdownLine(const PlanGraph &graph, const CopyCount &copies) {
  std::string text;
  if (copies.fitting > 0) {
    char line[120];
    std::snprintf(line, sizeof line,
                  "\nwhile %d more did the same: %.2f times as long, updates %.2f times\n",
                  copies.fitting, Work(graph).slowdown, Work(graph).updateSlowdown);
    text = line;
  }
  double updates = 0, versioned = 0, gradients = 0;
  for (const PlanUnit &unit : graph.units) {
    updates += unit.updateSeconds;
    versioned += unit.versionSlowdown * unit.updateSeconds;
    gradients += unit.backwardWeightSeconds;
  }
  if (const double accumulation = Work(graph).accumulation; accumulation > 0) {
    char line[120];
    std::snprintf(line, sizeof line,
                  "\nweight gradients added to those of earlier microbatches: %.2f times as long\n",
                  1 + accumulation / gradients);
    text += line;
  }
  if (versioned > updates) {
    char line[120];
    std::snprintf(line, sizeof line,
                  "\nupdates into another version of the weights: %.2f times as long\n",
                  versioned / updates);
    text += line;
  }
  if (copies.fitting < copies.wanted)
    text += "\nthe memory that is free holds " + std::to_string(copies.fitting) + " more of the " +
            std::to_string(copies.wanted) +
            " that the other cores would run: where all compute, units may take longer than the "
            "profile says\n";
  return text;
}

/// The same with weights in two versions; nothing where the model cannot train so, which it says.
std::unique_ptr<MeasuringProgram> makeVersioned(Options options, const fs::path &project,
                                                std::ostream &progress) {
  options.plan.schedule = "2bw";
  try {
    return std::make_unique<MeasuringProgram>(options, project, progress);
  } catch (const Error &error) {
    progress << "pdc-profile: what updates take with several versions of the weights is not "
                "measured: "
             << error.what() << std::endl;
    return nullptr;
  }
}

Profile profileOf(const Request &request, const MeasuringProgram &program, const UnitTimes &times) {
  mlir::OwningOpRef<ModuleOp> measured(program.units().clone());
  applyTimes(*measured, times);
  Profile profile{program.model().name,
                  request.device,
                  request.compile.plan.precision,
                  request.compile.plan.threads,
                  program.microbatchSize(),
                  makePlanGraph(*measured),
                  optimizerKind(program.model(), request.compile)};
  addAccumulation(profile.graph, program.units(), times);
  return profile;
}

/// The tables.
void report(const Request &request, const MeasuringProgram &program, const Profile &profile,
            const UnitTimes &times) {
  PlanGraph estimated = makePlanGraph(program.units());
  std::vector<KernelTimes> kernels = kernelTimes(program.units(), times);
  if (!request.kernels.empty())
    writeTextFile(request.kernels, kernelLines(kernels));
  mlir::OwningOpRef<ModuleOp> spread(program.units().clone());
  std::cout << "microbatches of " << profile.microbatchSize << " samples, " << profile.threads
            << (profile.threads == 1 ? " thread" : " threads")
            << "; spread: between the quartiles of the runs\n"
            << profileTable(profile.graph, estimated, spreadsOf(*spread, times)) << "\n"
            << kernelTable(kernels);
}

void finish(const Request &request, const std::string &lines) {
  std::cout << lines << "\nprofile: " << request.output << "\nnext: pdc "
            << request.compile.model.string() << " --profile " << request.output << " ...\n";
}

/// The program for a GPU, and what to do with it.
void writeForDevice(const Request &request, std::ostream &progress) {
  fs::path project = request.sources;
  if (project.empty())
    project = fs::path(request.compile.model).filename().replace_extension(".profile");
  MeasuringProgram program(request.compile, project, progress);
  std::string data;
  for (const std::string &text : writeDrawnData(program.units(), program.minibatch(), project))
    data += " --data " + text;
  addLinksProgram(project);
  std::string folder = project.string();
  // What the last task takes goes with the device.
  std::cout << "measuring program: " << folder << "\nwhere the GPU is:\n  cmake -S " << folder
            << " -B " << folder << "/build && cmake --build " << folder
            << "/build\n  PDC_UNIT_TIMES=" << folder << "/times.json " << folder
            << "/build/all_stages --transport local --no-graphs --steps " << request.steps + 1
            << data << "\nthen, with the same options: pdc-profile "
            << request.compile.model.string() << " --device cuda --times " << folder
            << "/times.json -o " << request.output
            << " ...\nlinks between several GPUs, a process on each (torchrun and srun start them, "
               "too):\n"
            << "  MASTER_ADDR=localhost MASTER_PORT=29500 mpirun -n GPUS " << folder
            << "/build/links topology.json\nthen: pdc ... --topology topology.json\n";
}

void readFromDevice(const Request &request, std::ostream &progress) {
  MeasuringProgram program(request.compile, "", progress);
  UnitTimes times = program.read(request.times);
  Profile profile = profileOf(request, program, times);
  writeTextFile(request.output, printProfile(profile));
  report(request, program, profile, times);
  finish(request, "");
}

void runHere(const Request &request, std::ostream &progress) {
  // 1. The programs that measure.
  WorkFolder folder(request.sources);
  MeasuringProgram program(request.compile, folder.project(), progress);
  std::unique_ptr<MeasuringProgram> versioned =
      makeVersioned(request.compile, folder.project() / "versions", progress);
  // 2. What they measure.
  CopyCount copies = countCopies(request.compile.plan.threads, program.planned());
  progress << "pdc-profile: building, and measuring " << request.steps << " updates" << std::endl;
  std::vector<std::string> data =
      writeDrawnData(program.units(), program.minibatch(), folder.project());
  std::vector<Round> rounds =
      measureRounds({program, versioned.get(), data, request.steps, copies.fitting});
  // 3. The profile.
  UnitTimes times = meanTimes(rounds);
  Profile profile = profileOf(request, program, times);
  addSlowdowns(profile.graph, program, versioned.get(), rounds);
  writeTextFile(request.output, printProfile(profile));
  report(request, program, profile, times);
  finish(request, slowdownLine(profile.graph, copies));
}

} // namespace

} // namespace pdc

int main(int argc, char **argv) {
  return pdc::runCommand([&] {
    pdc::Request request;
    if (std::optional<int> code = pdc::parse(argc, argv, request))
      return *code;
    if (!request.links.empty())
      pdc::measureLinks(request.links);
    else if (request.device == "cpu")
      pdc::runHere(request, std::cerr);
    else if (request.times.empty())
      pdc::writeForDevice(request, std::cerr);
    else
      pdc::readFromDevice(request, std::cerr);
    return 0;
  });
}
