#include "compiler/cost/ClosedForm.h"
#include "compiler/plan/Cut.h"
#include "compiler/plan/Files.h"
#include "compiler/schedule/Grid.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <sstream>

namespace pdc {

namespace {

template <class... Values> std::string format(const char *pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string seconds(double value) {
  if (value >= 1)
    return format("%.3g s", value);
  return value >= 1e-3 ? format("%.3g ms", value * 1e3) : format("%.3g us", value * 1e6);
}

std::string bytes(int64_t value) {
  double number = static_cast<double>(value);
  const char *units[] = {"B", "KB", "MB", "GB", "TB"};
  int unit = 0;
  for (; number >= 1000 && unit < 4; ++unit)
    number /= 1000;
  return format("%.3g %s", number, units[unit]);
}

/// Seconds of one microbatch; its replicas share the microbatches.
double work(const PlanStage &stage) { return stage.forwardSeconds + stage.backwardSeconds; }
double share(const PlanStage &stage) { return work(stage) / stage.replicas; }

double totalWork(const Plan &plan) {
  return std::accumulate(plan.stages.begin(), plan.stages.end(), 0.0,
                         [](double sum, const PlanStage &stage) { return sum + work(stage); });
}

/// Mean work of a rank over that of the heaviest: what balance alone leaves of the devices.
double balance(const Plan &plan) {
  double most = 0;
  for (const PlanStage &stage : plan.stages)
    most = std::max(most, share(stage));
  return most > 0 ? totalWork(plan) / (most * plan.topology.workers()) : 1;
}

/// Part of the devices' time that is neither forward, backward nor update.
double idle(const Plan &plan) {
  double busy = 0;
  double count = static_cast<double>(plan.schedule.microbatches);
  for (const PlanStage &stage : plan.stages)
    busy += count * work(stage) + stage.replicas * stage.updateSeconds;
  double devices = plan.topology.workersAtOnce();
  return plan.secondsPerMinibatch > 0 ? 1 - busy / (devices * plan.secondsPerMinibatch) : 0;
}

/// "0-6", or "0, 3 x" for three of them, the first rank 0, that do not follow each other.
std::string ranks(const PlanStage &stage) {
  const std::vector<int> &list = stage.ranks;
  if (list.size() == 1)
    return std::to_string(list[0]);
  bool together = list.back() - list.front() + 1 == static_cast<int>(list.size());
  return together ? format("%d-%d", list.front(), list.back())
                  : format("%d, %zu x", list.front(), list.size());
}

void describeStages(const Plan &plan, std::ostream &out) {
  double total = totalWork(plan);
  out << "stage    ranks  nodes   forward  backward  share  parameters    memory  in flight  "
         "versions\n";
  for (const PlanStage &stage : plan.stages)
    out << format("%5d %8s  %5zu  %8s  %8s   %3.0f%%  %10s  %8s  %9d  %8d\n", stage.id,
                  ranks(stage).c_str(), stage.nodes.size(), seconds(stage.forwardSeconds).c_str(),
                  seconds(stage.backwardSeconds).c_str(), total > 0 ? 100 * work(stage) / total : 0,
                  bytes(stage.parameterBytes).c_str(), bytes(stage.memoryBytes).c_str(),
                  stage.inFlight, stage.weightVersions);
  out << "\n";
  std::vector<bool> split = findSplitStages(plan.schedule);
  for (const PlanStage &stage : plan.stages) {
    out << "stage " << stage.id << ": ";
    if (!stage.nodes.empty())
      out << stage.nodes.front()
          << (stage.nodes.size() > 1 ? " ... " + stage.nodes.back() : std::string());
    out << "\n";
    if (split[stage.id])
      out << "  of the backward pass " << seconds(stage.backwardWeightSeconds)
          << " are weight gradients that no other stage waits for\n";
    if (stage.recompute)
      out << "  keeps its inputs alone and runs the forward pass again: "
          << seconds(stage.forwardSeconds) << " of the backward pass\n";
    for (const PlanSend &send : stage.sends)
      out << "  sends " << send.tensor << " to stage " << send.to << ", " << bytes(send.bytes)
          << " per microbatch\n";
  }
}

void describeTimes(const Plan &plan, std::ostream &out) {
  const char *what = plan.schedule.asynchronous ? "microbatch" : "minibatch";
  auto line = [&](const std::string &name, double value, const std::string &note) {
    out << format("%-28s %9s  ", name.c_str(), seconds(value).c_str()) << note << "\n";
  };
  auto against = [&](double other) {
    return plan.secondsPerMinibatch > 0
               ? format("the plan is %.2f times as fast", other / plan.secondsPerMinibatch)
               : std::string();
  };
  line(std::string("seconds per ") + what, plan.secondsPerMinibatch,
       plan.schedule.asynchronous ? "in steady state, predicted" : "bubble included, predicted");
  std::string stages = std::to_string(plan.stages.size());
  line("bound", plan.boundSecondsPerMinibatch,
       isClosedForm(plan.costModel)
           ? std::to_string(plan.topology.workers()) + " workers without idling or transfers"
       : plan.schedule.asynchronous
           ? "no cut into " + stages + " stages is faster"
           : "no cut into " + stages + " stages that empty at each update is faster");
  line("one device", plan.singleDeviceSecondsPerMinibatch,
       against(plan.singleDeviceSecondsPerMinibatch));
  line("data parallelism", plan.dataParallelSecondsPerMinibatch,
       against(plan.dataParallelSecondsPerMinibatch));
  line("no pipelining", plan.modelParallelSecondsPerMinibatch,
       against(plan.modelParallelSecondsPerMinibatch) + ", one at a time through the same stages");
  out << format("%-28s %8.0f%%  work of the mean rank against the heaviest\n", "balance",
                100 * balance(plan));
  out << format("%-28s %8.0f%%  of the devices' time: bubble, imbalance and transfers\n", "idle",
                100 * idle(plan));
}

/// What a reader wants to know first.
void describeVerdict(const Plan &plan, std::ostream &out) {
  double data = plan.dataParallelSecondsPerMinibatch, own = plan.secondsPerMinibatch;
  if (own <= 0 || plan.topology.workers() == 1)
    return;
  if (plan.stages.size() == 1)
    out << "\npipelining does not pay: the plan is data parallelism\n";
  else if (data / own > 1.005)
    out << format("\npipelining pays: %.2f times as fast as data parallelism\n", data / own);
  else
    out << format("\npipelining does not pay: data parallelism is %.2f times as fast\n",
                  own / data);
}

} // namespace

std::string describePlan(const Plan &plan) {
  std::ostringstream out;
  out << "plan of " << plan.model << " for " << plan.topology.workers() << " x "
      << (plan.device.empty() ? "worker" : plan.device) << ", schedule " << plan.scheduleName
      << ", " << plan.microbatches << (plan.microbatches == 1 ? " microbatch" : " microbatches")
      << " per update" << (plan.stages[0].replicas > 1 ? " and replica of stage 0" : "");
  if (plan.microbatchSize)
    out << " of " << plan.microbatchSize << " samples each";
  out << (plan.exact ? ", exact" : "") << "\n\n";
  describeStages(plan, out);
  if (!plan.schedule.ranks.empty())
    out << "\n" << drawGrid(plan.schedule, plan.edges, iterationsToDraw(plan.schedule));
  out << "\n";
  describeTimes(plan, out);
  describeVerdict(plan, out);
  return out.str();
}

} // namespace pdc
