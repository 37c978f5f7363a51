#include "runtime/cuda/TaskGraphs.h"

#include "runtime/cuda/Launch.h"

#include <cstdio>
#include <optional>

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
  std::optional<std::string> refused;
  if (code == cudaSuccess) {
    try {
      task();
    } catch (const std::exception &error) {
      refused = error.what(); // of a call that only a recording refuses: the task runs without one
    }
    code = endPart();
  }
  recording = nullptr;
  if (!refused && code == cudaSuccess)
    return true;
  destroy(parts);
  giveUp(refused ? *refused : cudaGetErrorString(code));
  return false;
}

void TaskGraphs::giveUp(const std::string &why) {
  gaveUp = true;
  cudaGetLastError(); // forgets it: what runs next asks for errors of its own
  std::fprintf(
      stderr,
      "warning: tasks run kernel by kernel, which is slower: recording one as a CUDA graph "
      "failed: %s\n",
      why.c_str());
}

} // namespace pdc::runtime::cuda
