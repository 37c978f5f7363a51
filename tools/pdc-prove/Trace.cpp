#include "tools/pdc-prove/Trace.h"

#include "compiler/Error.h"
#include "compiler/plan/Files.h"
#include "compiler/schedule/Text.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace pdc {
namespace {

using nlohmann::json;

constexpr double kMicrosecond = 1e-6;

struct TracedTask {
  int64_t step = 0;
  int rank = 0;
  TaskTime time;
};

std::optional<TracedTask> taskOf(const json &event) {
  if (event.at("ph") != "X")
    return std::nullopt;
  const std::optional<Phase> phase = phaseOfCategory(event.at("cat").get<std::string>());
  if (!phase || *phase == Phase::prepare || *phase == Phase::evaluate)
    return std::nullopt;
  const json &arguments = event.at("args");
  TracedTask task;
  task.step = arguments.at("step").get<int64_t>();
  task.rank = event.at("pid").get<int>();
  task.time.task = {arguments.at("stage").get<int>(), *phase,
                    arguments.at("microbatch").get<int64_t>()};
  task.time.start = kMicrosecond * event.at("ts").get<double>();
  task.time.end = task.time.start + kMicrosecond * event.at("dur").get<double>();
  return task;
}

void check(const TracedTask &task, const Plan &plan) {
  const Task &ran = task.time.task;
  if (ran.stage < 0 || ran.stage >= plan.schedule.stages() || ran.microbatch < 0 || task.step < 1 ||
      std::ranges::find(plan.schedule.ranksOfStage[ran.stage], task.rank) ==
          plan.schedule.ranksOfStage[ran.stage].end())
    throw Error(toString(ran) + " of step " + std::to_string(task.step) + " on rank " +
                std::to_string(task.rank) + " is not of this plan");
}

std::vector<TracedTask> readTasks(const std::filesystem::path &path, const Plan &plan) {
  std::vector<TracedTask> tasks;
  int64_t number = 0;
  try {
    const json trace = json::parse(readTextFile(path));
    for (const json &event : trace.at("traceEvents")) {
      if (std::optional<TracedTask> task = taskOf(event)) {
        check(*task, plan);
        tasks.push_back(*task);
      }
      ++number;
    }
  } catch (const json::exception &error) {
    throw Error(path.string() + ": event " + std::to_string(number) +
                " is not as --trace writes it: " + error.what());
  } catch (const Error &error) {
    if (std::string(error.what()).starts_with(path.string()))
      throw;
    throw Error(path.string() + ": event " + std::to_string(number) + ": " + error.what());
  }
  std::ranges::stable_sort(tasks, {}, [](const TracedTask &task) { return task.time.start; });
  return tasks;
}

/// Steps from the first that the trace has, whose microbatches are counted on from step to step, to
/// the last that all ranks have ended: the room for events may have been too small for more.
void countOn(std::vector<TracedTask> &tasks, const Plan &plan) {
  std::map<std::pair<int, int>, int64_t> updated; ///< by rank and stage
  int64_t first = tasks.front().step;
  for (const TracedTask &task : tasks) {
    first = std::min(first, task.step);
    if (task.time.task.phase == Phase::update)
      updated[{task.rank, task.time.task.stage}] = task.step;
  }
  int64_t last = INT64_MAX;
  for (int stage = 0; stage < plan.schedule.stages(); ++stage)
    for (int rank : plan.schedule.ranksOfStage[stage])
      last = std::min(last, updated[{rank, stage}]);
  std::erase_if(tasks, [&](const TracedTask &task) { return task.step > last; });
  for (TracedTask &task : tasks)
    task.time.task.microbatch += (task.step - first) * plan.schedule.microbatches;
}

/// All runs of a piece but updates bear the step before which it started.
void keepLongestPiece(std::vector<TracedTask> &tasks) {
  std::map<int64_t, int64_t> sizes;
  for (const TracedTask &task : tasks)
    if (task.time.task.phase != Phase::update)
      ++sizes[task.step];
  if (sizes.empty())
    return;
  const auto longest =
      std::ranges::max_element(sizes, {}, [](const auto &size) { return size.second; });
  const auto next = std::next(longest);
  std::erase_if(tasks, [&](const TracedTask &task) {
    return task.step < longest->first || (next != sizes.end() && task.step >= next->first);
  });
}

} // namespace

bool isTrace(const std::filesystem::path &path) {
  std::ifstream text(path);
  char first = 0;
  return text >> first && first == '{';
}

TaskTimes readTrace(const std::filesystem::path &path, const Plan &plan) {
  std::vector<TracedTask> tasks = readTasks(path, plan);
  if (!tasks.empty())
    plan.schedule.asynchronous ? keepLongestPiece(tasks) : countOn(tasks, plan);
  if (tasks.empty())
    throw Error(path.string() + ": holds no whole step of training; give what --trace wrote");
  int ranks = 0;
  for (const std::vector<int> &replicas : plan.schedule.ranksOfStage)
    ranks = std::max(ranks, *std::ranges::max_element(replicas) + 1);
  TaskTimes times(ranks);
  for (const TracedTask &task : tasks)
    times[task.rank].push_back(task.time);
  return times;
}

} // namespace pdc
