#include "compiler/plan/Cut.h"
#include "compiler/plan/MakePlan.h"
#include "compiler/simulator/PlanSimulation.h"
#include "runtime/Executor.h"
#include "runtime/Main.h"
#include "testsuite/plan/ExamplePlans.h"
#include "testsuite/simulator/SleepingPipeline.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>

namespace pdc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The compiler includes nothing of the runtime's room for sums, and plays it: as one bucket
/// between GPUs, as two of halves where a thread moves them (ReplicaSums::makeRoom).
TEST(SumsOverReplicas, AreCutAsTheRuntimeCutsThem) {
  const int64_t room = int64_t(sizeof(float)) * runtime::ExecutorOptions().bucketElements,
                remote = room * runtime::ReplicaSums::kRemoteBuckets;
  EXPECT_EQ(bucketBytes("cuda"), remote);
  EXPECT_EQ(bucketBytes("cpu"), room / 2);
  EXPECT_EQ(countBuckets("cuda", 2 * remote + 1), 3);
  EXPECT_EQ(countBuckets("cpu", 2 * room + 1), 5);
}

/// A pipeline on the threads of this process whose stages sleep: it runs what the simulator plays.
class Sleeping : public testing::TestWithParam<std::tuple<const char *, int>> {
protected:
  void SetUp() override {
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::replace(name, '/', '-');
    folder = fs::temp_directory_path() / ("pdc-sleeping-" + std::to_string(getpid()) + "-" + name);
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  /// Stages of 0.8 to 1.2 ms forward, or so many times that.
  static Plan makePlanFor(const char *schedule, int stages, double times = 1) {
    std::vector<double> forward;
    for (int stage = 0; stage < stages; ++stage)
      forward.push_back(1e-4 * times * (8 + 3 * stage % 5));
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

/// What a rank did, and when.
struct RankTasks {
  std::vector<std::string> labels; ///< by start: "F0"
  std::map<std::string, double> starts, ends;
};

std::vector<RankTasks> measuredTasks(const json &events, int ranks) {
  std::vector<RankTasks> tasks(ranks);
  for (const json &event : events)
    if (event["ph"] == "X" && event["tid"] == 0 && event["cat"] != "all_reduce") {
      RankTasks &rank = tasks[event["pid"]];
      std::string label = event["name"];
      double start = event["ts"];
      rank.labels.push_back(label);
      rank.starts[label] = start;
      rank.ends[label] = start + event["dur"].get<double>();
    }
  return tasks;
}

std::vector<std::vector<std::string>> playedLabels(const Plan &plan, int64_t iterations) {
  std::vector<std::vector<std::string>> labels(plan.stages.size());
  for (const Event &event : simulate(plan, iterations).events)
    if (event.kind == StepKind::run)
      labels[event.rank].push_back(letter(event.task.phase) +
                                   std::to_string(event.task.microbatch));
  return labels;
}

/// The neighbour's task that gives a task what it reads: "F2" of the stage before, the input
/// gradient of microbatch 2 of the stage behind; -1: none.
std::pair<int, std::string> sourceOf(int stage, const std::string &label, const Plan &plan) {
  std::string number = label.substr(1);
  if (label[0] == 'F')
    return {stage - 1, label};
  if ((label[0] == 'B' || label[0] == 'I') && stage + 1 < static_cast<int>(plan.stages.size()))
    return {stage + 1, (splitsBackward(plan.schedule) ? "I" : "B") + number};
  return {-1, ""};
}

/// Seconds decide nothing here, what runs before what does: tools/bench/prediction compares times.
TEST_P(Sleeping, RunsInThePlayedOrder) {
  auto [schedule, stages] = GetParam();
  Plan plan = makePlanFor(schedule, stages);
  int64_t iterations = plan.schedule.asynchronous ? 3 * stages : 1;
  int64_t steps = plan.schedule.asynchronous ? iterations + stages - 1 : iterations;
  std::vector<RankTasks> measured = measuredTasks(run(plan, steps), stages);
  std::vector<std::vector<std::string>> expected = playedLabels(plan, iterations);
  for (int stage = 0; stage < stages; ++stage) {
    // 1. Each rank's own order.
    ASSERT_EQ(measured[stage].labels, expected[stage]) << "rank " << stage;
    // 2. Between ranks: what a task reads was there before it began.
    for (const std::string &label : measured[stage].labels) {
      auto [from, source] = sourceOf(stage, label, plan);
      if (from < 0)
        continue;
      EXPECT_LE(measured[from].ends.at(source), measured[stage].starts[label] + 0.01)
          << "microseconds: rank " << stage << " " << label << " reads what rank " << from
          << " makes in " << source;
    }
  }
}

/// The part of the ranks' time, from the first task to the end of the last, in which none runs.
double idlePart(const std::vector<RankTasks> &ranks) {
  double first = INFINITY, last = 0, busy = 0;
  for (const RankTasks &rank : ranks)
    for (const auto &[label, start] : rank.starts) {
      first = std::min(first, start);
      last = std::max(last, rank.ends.at(label));
      busy += rank.ends.at(label) - start;
    }
  return 1 - busy / (static_cast<double>(ranks.size()) * (last - first));
}

std::vector<RankTasks> playedTasks(const Plan &plan, int64_t iterations) {
  std::vector<RankTasks> ranks(plan.stages.size());
  for (const Event &event : simulate(plan, iterations).events)
    if (event.kind == StepKind::run) {
      std::string label = letter(event.task.phase) + std::to_string(event.task.microbatch);
      ranks[event.rank].starts[label] = event.start;
      ranks[event.rank].ends[label] = event.end;
    }
  return ranks;
}

/// Tasks of 8 ms and more: what a busy machine adds is small beside them, and can only lengthen
/// what the best of some runs takes.
TEST_P(Sleeping, HasThePlayedBubble) {
  auto [schedule, stages] = GetParam();
  Plan plan = makePlanFor(schedule, stages, 10);
  int64_t iterations = plan.schedule.asynchronous ? 3 * stages : 1;
  int64_t steps = plan.schedule.asynchronous ? iterations + stages - 1 : iterations;
  const double played = idlePart(playedTasks(plan, iterations));
  double measured = 1;
  for (int tries = 0; tries < 5 && std::abs(measured - played) > 0.1 * played; ++tries)
    measured = idlePart(measuredTasks(run(plan, steps), stages));
  RecordProperty("measured", std::to_string(measured));
  RecordProperty("played", std::to_string(played));
  EXPECT_GT(played, 0.05);
  EXPECT_NEAR(measured, played, 0.1 * played);
}

INSTANTIATE_TEST_SUITE_P(Schedules, Sleeping,
                         testing::Combine(testing::Values("gpipe", "1f1b", "zb-h1", "pipedream"),
                                          testing::Values(4, 8)));

} // namespace
} // namespace pdc
