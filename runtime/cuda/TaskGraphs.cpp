#include "runtime/cuda/TaskGraphs.h"

#include "runtime/cuda/Launch.h"

#include <cstdio>

namespace pdc::runtime::cuda {

TaskGraphs::~TaskGraphs() {
  for (const auto &[name, graph] : graphs)
    if (graph)
      cudaGraphExecDestroy(graph);
}

void TaskGraphs::run(const TaskRun &name, const std::function<void()> &task) {
  const auto found = graphs.find(name);
  if (gaveUp || (found == graphs.end() && graphs.size() == kMost))
    return task();
  if (found == graphs.end()) {
    graphs.emplace(name, nullptr);
    return task();
  }
  if (!found->second)
    found->second = record(task);
  if (!found->second)
    return task();
  require(cudaGraphLaunch(found->second, stream), "cudaGraphLaunch");
}

/// Null where CUDA refuses: nothing has run then. Other ranks of the process may call what they
/// like meanwhile (ThreadLocal).
cudaGraphExec_t TaskGraphs::record(const std::function<void()> &task) {
  cudaError_t code = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (code != cudaSuccess) {
    giveUp(code);
    return nullptr;
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  bool isWhole = true;
  try {
    task();
  } catch (const std::exception &) {
    isWhole = false; // thrown again where the task runs kernel by kernel
  }
  code = cudaStreamEndCapture(stream, &graph);
  if (isWhole && code == cudaSuccess)
    code = cudaGraphInstantiate(&executable, graph, 0);
  else if (code == cudaSuccess)
    code = cudaErrorStreamCaptureInvalidated;
  if (graph)
    cudaGraphDestroy(graph);
  if (!executable)
    giveUp(code);
  return executable;
}

void TaskGraphs::giveUp(cudaError_t code) {
  gaveUp = true;
  cudaGetLastError(); // forgets it: what runs next asks for errors of its own
  std::fprintf(
      stderr,
      "warning: tasks run kernel by kernel, which is slower: recording one as a CUDA graph "
      "failed: %s\n",
      cudaGetErrorString(code));
}

} // namespace pdc::runtime::cuda
