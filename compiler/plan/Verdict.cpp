#include "compiler/plan/Verdict.h"

#include "compiler/plan/Baselines.h"

#include <algorithm>
#include <cstdio>

namespace pdc {

namespace {

/// By how much one way is faster than another, where that is more than rounding.
constexpr double kNoticeable = 1.005;

/// " is 25.0% faster"
std::string fasterText(double slower, double faster) {
  char text[64];
  std::snprintf(text, sizeof text, " is %.1f%% faster", 100 * (slower / faster - 1));
  return text;
}

/// With the plan's microbatches, shared among the replicas, which in an asynchronous schedule have
/// one each; where they or their samples cannot be shared equally, with the nearest minibatch that
/// can.
std::string dataParallelAdvice(const Plan &plan, bool isPlanned) {
  int64_t replicas = plan.topology.workers(), microbatches = plan.schedule.microbatches;
  std::string options = "--stages " + std::to_string(replicas);
  if (!plan.schedule.sumsMicrobatches())
    return "; " + options + " is that plan, of as many microbatches in an update";
  if (microbatches % replicas == 0)
    return "; " + options + " --microbatches " + std::to_string(microbatches / replicas) +
           " is that plan";
  if (plan.minibatch % replicas == 0)
    return isPlanned ? ": " + options + " --microbatches 1"
                     : " at most, where its smaller microbatches take no longer for each sample: " +
                           options;
  return std::string(isPlanned ? " for each sample" : "") +
         "; its replicas need equal parts of a minibatch: " + options + " --minibatch " +
         std::to_string(nearestSharedMinibatch(plan)) + " is the nearest plan";
}

const Baseline *findBaseline(const Plan &plan, std::string_view name) {
  auto found = std::ranges::find(plan.baselines, name, &Baseline::name);
  return found == plan.baselines.end() ? nullptr : &*found;
}

std::string timesText(double ratio) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f times", ratio);
  return text;
}

/// Of a plan that leaves devices idle, or is a pipeline.
std::string againstDataParallelism(const Plan &plan, const Baseline *parallel) {
  const double own = plan.secondsPerMinibatch;
  const double data =
      parallel ? parallel->secondsPerMinibatch : plan.dataParallelSecondsPerMinibatch;
  const std::string advice = dataParallelAdvice(plan, parallel && parallel->isPlanned);
  const bool isFaster = own / data > kNoticeable;
  const std::string faster = "data parallelism" + fasterText(own, data) + advice;
  if (plan.stages.size() == 1)
    return "the plan leaves all devices but one idle" + (isFaster ? ": " + faster : "");
  if (parallel && !parallel->fits)
    return "pipelining pays: data parallelism does not fit the memory of a device";
  if (data / own > kNoticeable)
    return "pipelining pays: " + timesText(data / own) + " as fast as data parallelism";
  return "pipelining does not pay: " + (isFaster ? faster : "data parallelism is as fast" + advice);
}

} // namespace

std::string verdictOf(const Plan &plan) {
  if (plan.secondsPerMinibatch <= 0 || plan.topology.workers() == 1)
    return "";
  const bool isDataParallel = plan.stages.size() == 1 && plan.stages[0].replicas > 1;
  std::string text =
      "\n" +
      (isDataParallel ? "pipelining does not pay: the plan is data parallelism"
                      : againstDataParallelism(plan, findBaseline(plan, "data_parallel"))) +
      "\n";
  const Baseline *alone = findBaseline(plan, "single_device");
  if (alone && alone->fits && plan.secondsPerMinibatch / alone->secondsPerMinibatch > kNoticeable)
    text += "several devices do not pay: one alone" +
            fasterText(plan.secondsPerMinibatch, alone->secondsPerMinibatch) + "\n";
  return text;
}

} // namespace pdc
