#include "tools/pdc/Options.h"

#include "compiler/cost/ClosedForm.h"
#include "compiler/plan/Files.h"
#include "compiler/plan/PlannedRows.h"
#include "compiler/schedule/Schedules.h"
#include "compiler/schedule/Text.h"
#include "passes/OptimizerSpec.h"
#include "tools/Command.h"
#include "tools/StagesByHand.h"
#include "tools/pdc/AnnotatedPath.h"
#include "tools/pdc/Batches.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <numeric>

namespace pdc {

namespace {

/// The options as they are typed.
struct Typed {
  std::optional<std::string> memory;
  std::string gpus, device = "cuda", stages, costModel = "overlap", precision = "fp32";
  std::string recompute = "auto", stopAfter = "sources";
  std::vector<std::string> dimensions;
  std::optional<int64_t> chunks;
};

} // namespace

void checkChoice(const std::string &option, const std::string &value,
                 const std::vector<std::string> &available, const std::vector<std::string> &later) {
  auto isIn = [&](const std::vector<std::string> &list) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  if (isIn(available))
    return;
  std::string there = std::string("; there ") + (available.size() == 1 ? "is " : "are ") +
                      CLI::detail::join(available, ", ");
  if (isIn(later))
    throw Error(option + " '" + value + "' is not available yet" + there);
  throw UsageError(option + " '" + value + "' is unknown" + there);
}

/// `8` or `2x4`.
static void parseWorkers(const std::string &text, Options &options) {
  size_t cross = text.find('x');
  std::optional<int64_t> servers = 1, devices;
  if (cross == std::string::npos) {
    devices = wholeNumber(text);
  } else {
    servers = wholeNumber(std::string_view(text).substr(0, cross));
    devices = wholeNumber(std::string_view(text).substr(cross + 1));
  }
  constexpr int64_t most = 4096;
  if (!servers || !devices || *servers < 1 || *devices < 1 || *servers > most ||
      *devices > most / *servers)
    throw UsageError("--gpus '" + text +
                     "': expected a number of devices from 1 to 4096, as in 4 or 2x4");
  options.plan.workers = static_cast<int>(*servers * *devices);
  options.servers = cross == std::string::npos ? 0 : static_cast<int>(*servers);
}

/// Bytes with an optional suffix K, M or G (powers of 1024).
static int64_t parseBytes(const std::string &text) {
  static const std::map<char, int> shifts = {{'K', 10}, {'M', 20}, {'G', 30}};
  std::string_view digits = text;
  auto suffix = text.empty() ? shifts.end() : shifts.find(text.back());
  if (suffix != shifts.end())
    digits.remove_suffix(1);
  int shift = suffix == shifts.end() ? 0 : suffix->second;
  std::optional<int64_t> number = wholeNumber(digits);
  if (!number || *number < 1 || *number > (INT64_MAX >> shift))
    throw UsageError("--memory '" + text + "': expected bytes such as 16G, 512M or 1000000");
  return *number << shift;
}

static void parseDimensions(const std::vector<std::string> &texts, Options &options) {
  for (const std::string &text : texts) {
    size_t equals = text.rfind('=');
    std::optional<int64_t> value;
    if (equals != std::string::npos)
      value = wholeNumber(std::string_view(text).substr(equals + 1));
    if (!value || *value < 1 || equals == 0)
      throw UsageError("--bind '" + text +
                       "': expected a dimension and a positive number, as in sequence=128");
    options.dimensions[text.substr(0, equals)] = *value;
  }
}

static StopAfter parseStop(const std::string &text) {
  static const std::map<std::string, StopAfter> levels = {{"import", StopAfter::import},
                                                          {"graph", StopAfter::graph},
                                                          {"cut", StopAfter::cut},
                                                          {"staged", StopAfter::staged},
                                                          {"scheduled", StopAfter::scheduled},
                                                          {"sources", StopAfter::sources}};
  auto level = levels.find(text);
  if (level == levels.end())
    throw UsageError("--stop-after '" + text +
                     "' is unknown; there are import, graph, cut, staged, "
                     "scheduled, sources");
  return level->second;
}

/// Rows say themselves how many replicas the stages and how many microbatches an update have.
static void readRows(Options &options) {
  const std::string &file = options.plan.schedule;
  Schedule rows = parseSchedule(readTextFile(file), file);
  int64_t replicas = rows.replicas(0), microbatches = rows.microbatches / replicas;
  auto several = [](const std::vector<int> &ranks) { return ranks.size() > 1; };
  if (options.plan.replicas.empty() && std::ranges::any_of(rows.ranksOfStage, several))
    for (const std::vector<int> &ranks : rows.ranksOfStage)
      options.plan.replicas.push_back(static_cast<int>(ranks.size()));
  if (!rows.sumsMicrobatches())
    return;
  if (rows.microbatches % replicas)
    throw Error(file + ": has " + std::to_string(rows.microbatches) +
                " microbatches, expected a multiple of the " + std::to_string(replicas) +
                " replicas of stage 0");
  if (options.microbatches.value_or(microbatches) != microbatches)
    throw Error("--microbatches " + std::to_string(*options.microbatches) + ": the rows of " +
                file + " have " + std::to_string(microbatches) +
                (replicas > 1 ? " for each replica of stage 0" : "") + "; leave it out");
  options.microbatches = microbatches;
}

static void checkSchedule(Options &options) {
  const std::string &name = options.plan.schedule;
  if (isFileOfRows(options.plan.schedule))
    return;
  std::vector<std::string> available{"auto"};
  for (const ScheduleKind &kind : schedules())
    available.emplace_back(kind.name);
  if (name.find_first_of("./") != std::string::npos)
    throw Error("--schedule '" + name +
                "': there is no such file of rows, and no such schedule; "
                "there are " +
                CLI::detail::join(available, ", "));
  checkChoice("--schedule", name, available, {});
}

/// `none`, `auto`, `all` or stages: `0,2`.
static void parseRecompute(const std::string &text, Options &options) {
  static const std::map<std::string, RecomputeChoice::Kind> kinds = {
      {"none", RecomputeChoice::none},
      {"auto", RecomputeChoice::automatic},
      {"all", RecomputeChoice::all}};
  if (auto known = kinds.find(text); known != kinds.end()) {
    options.plan.recompute.kind = known->second;
    return;
  }
  options.plan.recompute.kind = RecomputeChoice::listed;
  for (const std::string &part : CLI::detail::split(text, ',')) {
    std::optional<int64_t> stage = wholeNumber(part);
    if (!stage || *stage < 0 || *stage >= INT32_MAX)
      throw UsageError("--recompute '" + text +
                       "' is unknown; there are none, auto, all, or stages such as 0,2");
    options.plan.recompute.stages.push_back(static_cast<int>(*stage));
  }
}

static void checkRange(const std::string &option, std::optional<int64_t> value, int64_t most) {
  if (value && (*value < 1 || *value > most))
    throw UsageError(option + " " + std::to_string(*value) + ": expected 1 to " +
                     std::to_string(most));
}

/// A file instead of a kind is ONNX Runtime's.
static void takeOptimizerFile(Options &options) {
  if (options.optimizer.ends_with(".onnx"))
    options.artifacts.optimizer = std::exchange(options.optimizer, "");
  options.artifacts.needsOptimizer = options.optimizer.empty();
}

static void checkRateScales(const std::vector<std::string> &texts) {
  try {
    for (const std::string &text : texts)
      parseScaledRate(text);
  } catch (const Error &error) {
    throw UsageError(std::string("--lr-scale: ") + error.what());
  }
}

void checkModelOptions(const std::vector<std::string> &dimensions, Options &options) {
  checkRange("--minibatch", options.minibatch, INT32_MAX);
  checkRange("--microbatches", options.microbatches, kMostMicrobatches);
  checkRange("--threads", options.plan.threads, 1024);
  parseDimensions(dimensions, options);
  try {
    takeOptimizerFile(options);
    if (!options.optimizer.empty())
      parseOptimizer(options.optimizer);
  } catch (const Error &error) {
    throw UsageError(std::string("--optimizer: ") + error.what());
  }
  checkRateScales(options.groups.lrScale);
}

/// CMake and the build tools that it writes for read these characters otherwise.
static void checkOutputPath(const std::filesystem::path &output) {
  const std::string path = std::filesystem::absolute(output).string();
  const size_t at = path.find_first_of("\"$;|<>\\\n\r");
  if (at != std::string::npos)
    throw UsageError("-o '" + output.string() + "': a folder whose path holds " +
                     (path[at] < ' ' ? std::string("a line break") : std::string(1, path[at])) +
                     " cannot be built; name another");
}

/// A topology says the number of workers; --gpus may say it again, or how many of a known cluster.
static void chooseWorkers(const std::string &gpus, Options &options) {
  if (!gpus.empty())
    parseWorkers(gpus, options);
  if (options.topology.empty())
    return;
  options.plan.topology =
      readTopology(options.topology, {options.servers, gpus.empty() ? 0 : options.plan.workers});
  const int workers = options.plan.topology->workers();
  std::error_code ignored;
  const bool isCluster = !std::filesystem::exists(options.topology, ignored) &&
                         options.plan.topology->levels.size() > 1;
  if (!gpus.empty() && workers != options.plan.workers)
    throw UsageError("--gpus " + gpus + ": names " + std::to_string(options.plan.workers) +
                     " workers, but " + options.topology + " has " + std::to_string(workers) +
                     (isCluster ? ", " + std::to_string(options.plan.topology->levels[0].workers) +
                                      " a server; name those of one or of whole servers, or leave "
                                      "--gpus out"
                                : std::string("; leave --gpus out")));
  options.plan.workers = workers;
}

/// Stages by hand stand on ranks of their own, unless the schedule places several on each.
static void checkStages(const std::string &text, const Options &options) {
  bool placesOne = true;
  for (const ScheduleKind &kind : schedules())
    placesOne &= kind.name != options.plan.schedule || kind.placement == StagePlacement::straight;
  placesOne &= !isFileOfRows(options.plan.schedule);
  int replicas = std::accumulate(options.plan.replicas.begin(), options.plan.replicas.end(), 0);
  int ranks = placesOne ? std::max(options.plan.stages, replicas) : replicas;
  if (ranks > options.plan.workers)
    throw UsageError("--stages '" + text + "': " + std::to_string(ranks) +
                     (ranks > options.plan.stages ? " replicas" : " stages") +
                     " need as many workers, but there are " +
                     std::to_string(options.plan.workers));
}

Precision parsePrecision(const std::string &text, const std::string &device) {
  checkChoice("--precision", text, precisionNames(), {});
  Precision precision = precisionNamed(text);
  try {
    requirePrecision(device, precision);
  } catch (const Error &error) {
    throw Error("--" + std::string(error.what()));
  }
  return precision;
}

/// Seconds of another device or precision are none of the plan's.
static void checkProfile(const Options &options) {
  if (options.profile.empty())
    return;
  const Profile profile = readProfile(options.profile);
  const PlanRequest &plan = options.plan;
  if (profile.precision && (profile.device != plan.device || *profile.precision != plan.precision))
    throw Error("--profile " + options.profile + ": was measured for --device " + profile.device +
                " --precision " + std::string(toString(*profile.precision)) +
                ", expected one for --device " + plan.device + " --precision " +
                std::string(toString(plan.precision)) +
                "; give pdc-profile these, or pdc those");
}

/// PipeDream's cost models choose the stages of its schedule, and their replicas.
static void takeCostModel(const Typed &typed, Options &options) {
  const std::string &name = typed.costModel;
  checkChoice("--cost-model", name, {"overlap", "pipedream-code", "pipedream-paper", "ring-max"},
              {});
  options.plan.costModel = name;
  if (!isClosedForm(name))
    return;
  const std::string own = "--cost-model " + name;
  if (options.plan.schedule == "auto")
    options.plan.schedule = "pipedream";
  if (options.plan.schedule != "pipedream")
    throw UsageError(own + " speaks of the pipedream schedule, found --schedule " +
                     options.plan.schedule + "; leave one of them out");
  if (!typed.stages.empty() || typed.chunks)
    throw UsageError(own + " plans the stages itself; leave " +
                     (typed.chunks ? "--chunks" : "--stages") + " out, or plan with overlap");
}

/// What can be judged without the model.
static void interpret(const Typed &typed, Options &options) {
  takeCostModel(typed, options);
  parseRecompute(typed.recompute, options);
  checkRange("--chunks", typed.chunks, 64);
  options.plan.chunks = static_cast<int>(typed.chunks.value_or(0));
  checkSchedule(options);
  if (options.plan.verticalSync && options.plan.schedule != "pipedream")
    throw UsageError("--vertical-sync is a rule of --schedule pipedream, found '" +
                     options.plan.schedule + "'; leave it out");
  options.stopAfter = parseStop(typed.stopAfter);
  if (!options.annotated.empty() && options.stopAfter != StopAfter::sources)
    throw UsageError("--annotated '" + options.annotated + "': is written with the sources, which --stop-after " +
                     typed.stopAfter + " does not reach; leave one of them out");
  chooseWorkers(typed.gpus, options);
  if (typed.memory)
    options.plan.memoryBytes = parseBytes(*typed.memory);
  checkModelOptions(typed.dimensions, options);
  checkChoice("--device", typed.device, {"cuda", "cpu"}, {});
  options.plan.device = typed.device;
  options.plan.precision = parsePrecision(typed.precision, typed.device);
  takeStages(typed.stages, options.plan);
  checkStages(typed.stages, options);
  if (isFileOfRows(options.plan.schedule))
    readRows(options);
  if (options.output.empty())
    options.output = std::filesystem::path(options.model).replace_extension(".pdc");
  if (options.stopAfter == StopAfter::sources)
    checkOutputPath(options.output);
  if (!options.annotated.empty())
    checkAnnotatedPath(options);
  checkProfile(options);
}

void addModelOptions(CLI::App &app, Options &options, std::vector<std::string> &dimensions) {
  auto add = [&](const char *name, auto &value, const char *kind, const char *text) {
    app.add_option(name, value, text)->type_name(kind)->allow_extra_args(false);
  };
  add("--loss", options.loss, "LOSS", "KIND[:OUTPUT[:LABELS]], as in mse:y");
  add("--optimizer", options.optimizer, "KIND,...", "as in momentum,lr=0.1,weight_decay=1e-4, or a file");
  add("--checkpoint", options.artifacts.checkpoint, "FILE", "weights of an ONNX Runtime graph");
  add("--train", options.train, "PATTERN", "what to train; +PATTERN: that, too (once per pattern)");
  add("--freeze", options.freeze, "PATTERN",
      "what not to train, running statistics too (once per pattern)");
  add("--no-decay", options.groups.noDecay, "PATTERN", "weights without decay (once per pattern)");
  add("--lr-scale", options.groups.lrScale, "PATTERN=F",
      "weights that learn at F times the rate (once per pattern)");
  add("--bind", dimensions, "DIM=N", "a named dimension's size (once per dimension)");
  add("--minibatch", options.minibatch, "B", "samples per update");
  add("--microbatches", options.microbatches, "M",
      "microbatches per update, of each replica that --stages gives (planned)");
  app.add_flag("--exact", options.plan.exact, "the same bits at any number of stages (not pipedream)");
  add("--threads", options.plan.threads, "T", "CPU threads per rank (1)");
}

static void addPlanOptions(CLI::App &app, Options &options, Typed &typed) {
  std::string schedules = "auto, " + scheduleNames() + ", or rows";
  auto add = [&](const char *name, auto &value, const char *kind, const char *text) {
    app.add_option(name, value, text)->type_name(kind)->allow_extra_args(false);
  };
  add("--gpus,--workers", typed.gpus, "N|SxG",
      "N devices of one server, or S servers of G devices");
  add("--topology", options.topology, "FILE",
      "levels of workers and links, or a cluster: dgx-h100:2");
  add("--device", typed.device, "KIND", "cuda (the default) or cpu");
  add("-o", options.output, "DIR", "where the sources go (MODEL.pdc)");
  add("--schedule", options.plan.schedule, "NAME|FILE", schedules.c_str());
  add("--chunks", typed.chunks, "V",
      "stages per rank of interleaved and zb-v (2; auto tries 2 to 4)");
  app.add_flag("--vertical-sync", options.plan.verticalSync,
               "pipedream: one version at all stages");
  add("--recompute", typed.recompute, "WHAT",
      "none, auto (where memory asks for it), all, or stages: 0,2");
  add("--stages", typed.stages, "R-R|FILE",
      "replicas per stage (1-1 are two stages), or node -> stage");
  add("--annotated", options.annotated, "FILE", "also the model with its stages (for Netron)");
  add("--profile", options.profile, "FILE", "measured costs (analytic)");
  add("--cost-model", typed.costModel, "NAME",
      "overlap (pdc's own), pipedream-code, pipedream-paper or ring-max");
  add("--memory", typed.memory, "BYTES", "per device, as in 16G");
  add("--precision", typed.precision, "TYPE", "fp32 (the default); on GPUs also tf32, bf16, fp16");
  add("--stop-after", typed.stopAfter, "LEVEL",
      "import, graph, cut, staged, scheduled, sources: print it");
}

std::optional<int> parseOptions(int argc, char **argv, Options &options) {
  CLI::App app("Plans the pipeline-parallel training of an ONNX model and writes its sources.",
               "pdc");
  nameUsageErrors(app);
  Typed typed;
  app.add_option("model", options.model, "the model to train")->required()->type_name("MODEL.onnx");
  addModelOptions(app, options, typed.dimensions);
  addPlanOptions(app, options, typed);
  try {
    app.parse(argc, argv);
    if (typed.gpus.empty() && options.topology.empty())
      throw CLI::RequiredError("--gpus or --topology");
    if (app.count("--annotated") && options.annotated.empty())
      throw UsageError("--annotated '': expected the path of a file, as in stages.onnx");
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  interpret(typed, options);
  return std::nullopt;
}

} // namespace pdc
