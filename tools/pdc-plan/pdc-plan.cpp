#include "compiler/cost/ClosedForm.h"
#include "compiler/plan/Files.h"
#include "compiler/plan/Hints.h"
#include "compiler/plan/MakePlan.h"
#include "compiler/plan/PlannedRows.h"
#include "compiler/plan/Profile.h"
#include "compiler/report/Report.h"
#include "compiler/schedule/Schedules.h"
#include "compiler/simulator/PlanSimulation.h"
#include "tools/Command.h"
#include "tools/StagesByHand.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <iostream>
#include <sstream>

namespace pdc {
namespace {

struct Options {
  std::string profile;
  std::vector<int> workers;
  std::vector<double> bandwidth;
  std::string topology;
  std::string schedule = "auto";
  std::string stages;
  std::string costModel = "overlap";
  std::optional<std::string> memory;
  std::string json;
  std::string report;
  std::string trace = "trace.json";
  int64_t microbatches = 0;
  int chunks = 0;
  double compression = 1;
  bool straight = false;
  bool simulate = false;
};

/// "16G" -> 17179869184.
int64_t parseBytes(const std::string &text) {
  size_t end = 0;
  double number = 0;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception &) {
  }
  std::string suffix = text.substr(end);
  size_t power = suffix.empty() ? 0 : std::string("KMG").find(suffix) + 1;
  const double bytes =
      number * static_cast<double>(int64_t(1) << (10 * std::min(power, size_t(3))));
  if (suffix.size() > 1 || (!suffix.empty() && power == 0) || !(bytes >= 1 && bytes < 1e18))
    throw UsageError("--memory: expected bytes such as 16G, found '" + text + "'");
  return static_cast<int64_t>(bytes);
}

std::optional<Topology> chooseTopology(const Options &options, const Profile &profile) {
  if (!options.topology.empty())
    return readTopology(options.topology);
  std::vector<double> bandwidth = options.bandwidth;
  const size_t levels = options.workers.size();
  if (bandwidth.empty() && !profile.device.empty() && levels == 1)
    return std::nullopt;
  if (bandwidth.empty() && !profile.device.empty() && levels == 2)
    return assumedTopology(profile.device, options.workers[1], options.workers[0]);
  if (bandwidth.empty() && !profile.device.empty())
    throw UsageError("--workers: has " + std::to_string(levels) + " levels, and the links of " +
                     profile.device + " are known of two; give --bandwidth for each");
  // A PipeDream profile names no device; its optimizer assumes this much.
  if (bandwidth.empty())
    bandwidth.assign(options.workers.size(), 1e9);
  Topology topology;
  for (size_t level = 0; level < options.workers.size(); ++level)
    topology.levels.push_back({options.workers[level], {bandwidth[level], 0}});
  return topology;
}

int countWorkers(const Options &options, const std::optional<Topology> &topology) {
  if (topology)
    return topology->workers();
  int64_t workers = 1;
  for (int level : options.workers)
    if ((workers *= level) > 65536)
      throw UsageError("--workers: expected at most 65536 in all");
  return static_cast<int>(workers);
}

void checkBandwidth(const Options &options) {
  if (options.bandwidth.empty())
    return;
  if (options.bandwidth.size() != options.workers.size())
    throw UsageError("--bandwidth: expected one number for each of " +
                     std::to_string(options.workers.size()) + " levels of --workers, found " +
                     std::to_string(options.bandwidth.size()));
  for (double bandwidth : options.bandwidth)
    if (!(bandwidth >= 1 && std::isfinite(bandwidth))) {
      std::ostringstream text;
      text << "--bandwidth: expected at least 1 byte per second, found " << bandwidth;
      throw UsageError(text.str());
    }
}

/// Options that would count for nothing.
void checkCombination(const Options &options) {
  if (!(options.compression >= 0))
    throw UsageError("--activation-compression: expected a ratio of at least 0");
  if (options.compression != 1 && options.costModel == "overlap")
    throw UsageError("--activation-compression: overlap charges the bytes that cross; give another "
                     "--cost-model, or leave it out");
  if (options.microbatches > 0 && options.schedule == "pipedream")
    throw UsageError("--microbatches " + std::to_string(options.microbatches) +
                     ": in schedule 'pipedream' each microbatch is its own update; leave it out");
}

/// What needs no file to be judged.
void checkUsage(const Options &options) {
  checkBandwidth(options);
  if (options.topology.empty())
    countWorkers(options, std::nullopt);
  if (options.memory)
    parseBytes(*options.memory);
  if (options.costModel != "overlap" && !isClosedForm(options.costModel))
    throw UsageError("--cost-model '" + options.costModel +
                     "' is unknown; there are overlap, pipedream-code, pipedream-paper, ring-max");
  bool isKnown = options.schedule == "auto";
  for (const ScheduleKind &kind : schedules())
    isKnown |= options.schedule == kind.name;
  if (!isKnown && !isFileOfRows(options.schedule))
    throw UsageError("--schedule '" + options.schedule + "' is neither a file nor one of auto, " +
                     scheduleNames());
  checkCombination(options);
}

/// Above any plan whose trace a viewer opens.
constexpr int64_t kMostRuns = 4000000;

/// Plays the plan on its topology, says what came out and writes the trace.
void simulatePlan(const Plan &plan, const std::string &trace) {
  int64_t iterations = iterationsToShow(plan), stages = static_cast<int64_t>(plan.stages.size());
  int64_t runs = stages * iterations * plan.microbatches * (plan.schedule.asynchronous ? 3 : 2);
  if (runs > kMostRuns)
    throw Error("--simulate: " + std::to_string(plan.stages.size()) + " stages and " +
                std::to_string(iterations * plan.microbatches) +
                " microbatches are too many to play; use fewer --microbatches or --workers");
  double seconds = simulatedSecondsPerMinibatch(plan);
  std::cout << "\nplayed on " << plan.topology.workers() << " workers, links shared: " << seconds
            << " s per " << (plan.schedule.sumsMicrobatches() ? "minibatch" : "microbatch")
            << (plan.schedule.asynchronous ? " in steady state" : "") << "\ntrace of " << iterations
            << (plan.schedule.asynchronous ? " microbatches: " : " minibatches: ") << trace << "\n";
  const PredictedTrace predicted = predictTrace(plan, iterations);
  if (!predicted.leftOut.empty())
    std::cout << "left out of the trace: " << predicted.leftOut << "\n";
  writeTextFile(trace, predicted.text);
}

void run(const Options &options) {
  Profile profile = readProfile(options.profile);
  PlanRequest request;
  request.topology = chooseTopology(options, profile);
  request.workers = countWorkers(options, request.topology);
  request.schedule = options.schedule;
  // Four microbatches per stage leave a fifth of the time to filling and emptying.
  request.microbatches = options.microbatches ? options.microbatches : 4 * request.workers;
  request.chunks = options.chunks;
  request.memoryBytes = options.memory ? parseBytes(*options.memory) : 0;
  request.costModel = options.costModel;
  request.straight = options.straight;
  request.openReplicas = !options.straight && !options.microbatches && options.stages.empty();
  request.compression = options.compression;
  request.model = profile.model;
  request.device = profile.device;
  request.precision = profile.precision.value_or(Precision::fp32);
  request.threads = profile.threads;
  request.microbatchSize = profile.microbatchSize;
  takeStages(options.stages, request);
  if (!options.microbatches && !request.replicas.empty())
    request.microbatches = std::max(1, 4 * request.workers / request.replicas[0]);
  Plan plan = makePlan(profile.graph, request);
  plan.hints = findHints(plan, profile.graph, request);
  std::cout << describePlan(plan);
  if (!options.json.empty())
    writeTextFile(options.json, printPlan(plan));
  if (!options.report.empty())
    writeTextFile(options.report, printReport(plan, profile.graph));
  if (options.simulate)
    simulatePlan(plan, options.trace);
}

void addOptions(CLI::App &app, Options &options) {
  app.add_option("PROFILE", options.profile,
                 "profile.json of pdc-profile, or PipeDream's graph.txt")
      ->required();
  app.add_option("--workers", options.workers, "devices per level, lowest first: 4,2")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536));
  app.add_option("--bandwidth", options.bandwidth, "bytes per second per level: 8e9,1.25e9")
      ->delimiter(',');
  app.add_option("--topology", options.topology,
                 "levels of workers and links as JSON, or a known cluster: "
                 "cluster-a, cluster-b, cluster-c, dgx-a100, dgx-h100, dgx-h200[:SERVERS]")
      ->excludes("--workers")
      ->excludes("--bandwidth");
  app.add_option("--schedule", options.schedule, "auto, " + scheduleNames() + " or a file of rows");
  app.add_option("--chunks", options.chunks,
                 "stages per rank of interleaved and zb-v (2; auto tries 2 to 4)")
      ->check(CLI::Range(1, 64));
  app.add_option("--microbatches", options.microbatches, "per update (4 x workers)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20));
  app.add_option("--stages", options.stages,
                 "replicas per stage (3-1), or node -> stage: JSON or a plan.json");
  app.add_option("--cost-model", options.costModel,
                 "overlap, pipedream-code, pipedream-paper or ring-max");
  app.add_option("--activation-compression", options.compression,
                 "ratio for what crosses cuts; 0: takes no time (closed forms)")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--memory", options.memory, "bytes per device; K, M, G");
  app.add_flag("--straight", options.straight, "one worker per stage");
  app.add_option("--json", options.json, "write plan.json there");
  app.add_option("--report", options.report, "write the plan for a browser there (report.html)");
  app.add_flag("--simulate", options.simulate, "play the plan and write a Chrome trace");
  app.add_option("--trace", options.trace, "where --simulate writes")
      ->needs("--simulate")
      ->capture_default_str();
}

} // namespace
} // namespace pdc

int main(int argc, char **argv) {
  return pdc::runCommand([&] {
    CLI::App app("Plans a pipeline from measured costs, without a model", "pdc-plan");
    pdc::nameUsageErrors(app);
    pdc::Options options;
    pdc::addOptions(app, options);
    try {
      app.parse(argc, argv);
      if (options.workers.empty() && options.topology.empty())
        throw CLI::RequiredError("--workers or --topology");
    } catch (const CLI::ParseError &error) {
      return app.exit(error) ? 2 : 0;
    }
    pdc::checkUsage(options);
    pdc::run(options);
    return 0;
  });
}
