#pragma once

#include "compiler/plan/Plan.h"

#include <vector>

namespace pdc {

/// When a rank ran a task, in seconds from the beginning of the run.
struct TaskTime {
  Task task; ///< microbatches are counted through all minibatches of the run
  double start = 0, end = 0;

  double seconds() const { return end - start; }
};

/// What each rank ran, in the order of the starts.
using TaskTimes = std::vector<std::vector<TaskTime>>;

/// The runs and sums of each rank.
struct PlayedRows {
  std::vector<std::vector<Step>> ranks;
  int64_t microbatches = 0;
};

/// Of so many minibatches of a synchronous plan, or of at least so many microbatches of an
/// asynchronous one.
PlayedRows rowsToPlay(const Plan &plan, int64_t iterations);

/// Of a run, which may have left out microbatches at the end of its data. Throws pdc::Error that
/// names the rank and the first task that is not in the order of the plan.
PlayedRows rowsOfRun(const Plan &plan, const TaskTimes &measured);

/// By row of a rank: the sum over replicas that its backward pass makes the last gradients of.
std::vector<const Step *> findSumsBehind(const std::vector<Step> &rows);

} // namespace pdc
