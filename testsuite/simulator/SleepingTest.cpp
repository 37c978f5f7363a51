#include "compiler/plan/MakePlan.h"
#include "compiler/simulator/PlanSimulation.h"
#include "runtime/Main.h"
#include "testsuite/plan/ExampleGraphs.h"
#include "testsuite/simulator/SleepingPipeline.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <thread>

namespace pdc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A pipeline on the threads of this process whose stages sleep: what it does is compared with what
/// the simulator says.
class Sleeping : public testing::TestWithParam<std::tuple<const char *, int>> {
protected:
  void SetUp() override {
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::replace(name, '/', '-');
    folder = fs::temp_directory_path() / ("pdc-sleeping-" + std::to_string(getpid()) + "-" + name);
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  /// Stages of 8 to 12 ms forward.
  static Plan makePlanFor(const char *schedule, int stages) {
    std::vector<double> forward;
    for (int stage = 0; stage < stages; ++stage)
      forward.push_back(1e-3 * (8 + 3 * stage % 5));
    PlanRequest request;
    request.workers = stages;
    request.schedule = schedule;
    request.microbatches = 2 * stages;
    request.topology = Topology{{{stages, {1e9, 2e-5}}}, 0, ""};
    return makePlan(chainGraph(forward), request);
  }

  json run(const Plan &plan, int64_t steps) {
    SleepingPipeline pipeline(plan);
    std::vector<std::string> words = {
        "sleeping", "--transport",         "local",   "--progress",    "none",
        "--steps",  std::to_string(steps), "--trace", folder / "trace"};
    std::vector<char *> argv;
    for (std::string &word : words)
      argv.push_back(word.data());
    const runtime::Programs sources[] = {pipeline.source()};
    EXPECT_EQ(runtime::main(static_cast<int>(argv.size()), argv.data(), sources), 0);
    return json::parse(std::ifstream(folder / "trace"))["traceEvents"];
  }

  fs::path folder;
};

using Tasks = std::vector<std::string>;

/// Per rank the labels of its tasks by start; with the seconds from its first task's start to its
/// last one's end, and those that it works.
struct RankTimes {
  Tasks labels;
  double first = 1e30, last = 0, busy = 0;

  void add(const std::string &label, double start, double end) {
    labels.push_back(label);
    first = std::min(first, start);
    last = std::max(last, end);
    busy += end - start;
  }
};

std::vector<RankTimes> measuredTimes(const json &events, int ranks) {
  std::vector<RankTimes> times(ranks);
  for (const json &event : events)
    if (event["ph"] == "X" && event["tid"] == 0 && event["cat"] != "all_reduce") {
      double start = event["ts"].get<double>() / 1e6, length = event["dur"].get<double>() / 1e6;
      times[event["pid"]].add(event["name"], start, start + length);
    }
  return times;
}

std::vector<RankTimes> playedTimes(const Plan &plan, int64_t iterations) {
  PlanSimulation simulation = simulate(plan, iterations);
  std::vector<RankTimes> times(simulation.busySeconds.size());
  for (const Event &event : simulation.events)
    if (event.kind == StepKind::run)
      times[event.rank].add(letter(event.task.phase) + std::to_string(event.task.microbatch),
                            event.start, event.end);
  return times;
}

struct Span {
  double seconds = 0, bubble = 0; ///< from the first task to the last; idle part of the ranks' time
};

Span spanOf(const std::vector<RankTimes> &ranks) {
  double first = 1e30, last = 0, busy = 0;
  for (const RankTimes &rank : ranks) {
    first = std::min(first, rank.first);
    last = std::max(last, rank.last);
    busy += rank.busy;
  }
  return {last - first, 1 - busy / (static_cast<double>(ranks.size()) * (last - first))};
}

TEST_P(Sleeping, RunsAsPlayed) {
  auto [schedule, stages] = GetParam();
  Plan plan = makePlanFor(schedule, stages);
  int64_t iterations = plan.schedule.asynchronous ? 3 * stages : 1;
  Span played = spanOf(playedTimes(plan, iterations));
  double error = 1, bubbleError = 1;
  bool isLoaded = false;
  // On a loaded machine sleepers wake late: the best of some runs is the pipeline's own doing.
  for (int attempt = 0; attempt < 8 && (error > 0.03 || bubbleError > 0.1); ++attempt) {
    double load = 0;
    getloadavg(&load, 1);
    isLoaded |= load > std::thread::hardware_concurrency();
    int64_t steps = plan.schedule.asynchronous ? iterations + stages - 1 : iterations;
    std::vector<RankTimes> measured = measuredTimes(run(plan, steps), stages);
    std::vector<RankTimes> expected = playedTimes(plan, iterations);
    for (int rank = 0; rank < stages; ++rank)
      ASSERT_EQ(measured[rank].labels, expected[rank].labels) << "rank " << rank;
    Span span = spanOf(measured);
    error = std::min(error, std::abs(span.seconds / played.seconds - 1));
    bubbleError = std::min(bubbleError, std::abs(span.bubble / played.bubble - 1));
  }
  EXPECT_LT(error, isLoaded ? 0.2 : 0.03);
  EXPECT_LT(bubbleError, isLoaded ? 0.5 : 0.1);
}

INSTANTIATE_TEST_SUITE_P(Schedules, Sleeping,
                         testing::Combine(testing::Values("gpipe", "1f1b", "zb-h1", "pipedream"),
                                          testing::Values(4, 8)));

} // namespace
} // namespace pdc
