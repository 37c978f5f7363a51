#include "runtime/cuda/TaskGraphs.h"

#include "runtime/cuda/Launch.h"

#include <cstdio>

namespace pdc::runtime::cuda {

TaskGraphs::~TaskGraphs() {
  for (auto &[name, parts] : graphs)
    destroy(parts);
}

void TaskGraphs::destroy(Recorded &parts) {
  for (const Part &part : parts)
    if (part.graph)
      cudaGraphExecDestroy(part.graph);
  parts.clear();
}

void TaskGraphs::run(const TaskRun &name, const std::function<void()> &task) {
  const auto found = graphs.find(name);
  if (gaveUp || (found == graphs.end() && graphs.size() == kMost))
    return task();
  if (found == graphs.end()) {
    graphs.emplace(name, Recorded());
    return task();
  }
  Recorded &parts = found->second;
  if (parts.empty() && !record(task, parts))
    return task();
  launch(parts);
}

void TaskGraphs::launch(const Recorded &parts) {
  for (const Part &part : parts) {
    require(cudaGraphLaunch(part.graph, stream), "cudaGraphLaunch");
    if (part.action)
      part.action();
  }
}

void TaskGraphs::interrupt(const std::function<void()> &action) {
  if (!recording)
    return action();
  require(endPart(), "the end of a recorded graph");
  recording->back().action = action;
  require(beginPart(), "cudaStreamBeginCapture");
}

/// Other ranks of the process may call what they like meanwhile (ThreadLocal).
cudaError_t TaskGraphs::beginPart() {
  recording->emplace_back();
  return cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
}

cudaError_t TaskGraphs::endPart() {
  cudaGraph_t graph = nullptr;
  cudaError_t code = cudaStreamEndCapture(stream, &graph);
  if (code == cudaSuccess)
    code = cudaGraphInstantiate(&recording->back().graph, graph, 0);
  if (graph)
    cudaGraphDestroy(graph);
  return code;
}

/// False where CUDA refuses: nothing has run then.
bool TaskGraphs::record(const std::function<void()> &task, Recorded &parts) {
  recording = &parts;
  cudaError_t code = beginPart();
  bool isWhole = code == cudaSuccess;
  if (isWhole) {
    try {
      task();
    } catch (const std::exception &) {
      isWhole = false; // thrown again where the task runs kernel by kernel
    }
    code = endPart();
  }
  recording = nullptr;
  if (isWhole && code == cudaSuccess)
    return true;
  destroy(parts);
  giveUp(code == cudaSuccess ? cudaErrorStreamCaptureInvalidated : code);
  return false;
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
