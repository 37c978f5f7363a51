#pragma once

#include "runtime/Accelerator.h"

#include <cuda_runtime_api.h>

#include <map>

namespace pdc::runtime::cuda {

/// Tasks as CUDA graphs. The first run of a task at some places puts its kernels into the stream
/// one by one, which also lets the libraries load what they load when it is first used; the second
/// one records them, and from then on the graph is launched in their place.
class TaskGraphs {
public:
  explicit TaskGraphs(cudaStream_t stream) : stream(stream) {}
  TaskGraphs(const TaskGraphs &) = delete;
  ~TaskGraphs();

  void run(const TaskRun &name, const std::function<void()> &task);

private:
  cudaGraphExec_t record(const std::function<void()> &task);
  void giveUp(cudaError_t code);

  /// Graphs take memory of the GPU, and a schedule with many slots and versions has many.
  static constexpr size_t kMost = 1024;

  const cudaStream_t stream;
  std::map<TaskRun, cudaGraphExec_t> graphs; ///< null: run once, not recorded
  bool gaveUp = false;                       ///< recording failed: everything runs kernel by kernel
};

} // namespace pdc::runtime::cuda
