#pragma once

#include "runtime/Accelerator.h"

#include <cuda_runtime_api.h>

#include <map>
#include <string>
#include <vector>

namespace pdc::runtime::cuda {

/// Tasks as CUDA graphs. The first run of a task at some places puts its kernels into the stream
/// one by one, which also lets the libraries load what they load when it is first used; the second
/// one records them, and from then on what was recorded is launched in their place: a graph, or,
/// where the task is interrupted, one up to there and one behind it.
class TaskGraphs {
public:
  explicit TaskGraphs(cudaStream_t stream) : stream(stream) {}
  TaskGraphs(const TaskGraphs &) = delete;
  ~TaskGraphs();

  void run(const TaskRun &name, const std::function<void()> &task);
  /// Within a task: calls the action now or, of a task that is recorded, wherever it is launched.
  void interrupt(const std::function<void()> &action);

private:
  struct Part {
    cudaGraphExec_t graph = nullptr;
    std::function<void()> action; ///< behind it; empty: the task ends
  };
  using Recorded = std::vector<Part>;

  bool record(const std::function<void()> &task, Recorded &parts);
  cudaError_t beginPart();
  cudaError_t endPart();
  void launch(const Recorded &parts);
  static void destroy(Recorded &parts);
  void giveUp(const std::string &why);

  /// Graphs take memory of the GPU, and a schedule with many slots and versions has many.
  static constexpr size_t kMost = 1024;

  const cudaStream_t stream;
  std::map<TaskRun, Recorded> graphs; ///< empty: run once, not recorded
  Recorded *recording = nullptr;      ///< what is recorded now
  bool gaveUp = false;                ///< recording failed: everything runs kernel by kernel
};

} // namespace pdc::runtime::cuda
