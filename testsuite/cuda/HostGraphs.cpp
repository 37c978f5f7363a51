#include "testsuite/cuda/HostGraphs.h"

#include "testsuite/cuda/HostStreams.h"

#include <utility>
#include <vector>

struct CUgraph_st {
  std::vector<std::function<void()>> nodes;
};
struct CUgraphExec_st : CUgraph_st {};

namespace {

/// A thread records in one stream at a time, as cudaStreamCaptureModeThreadLocal has it here.
struct Recording {
  cudaStream_t stream = nullptr;
  CUgraph_st graph;
  bool isSpoiled = false;
};
thread_local Recording recording;

} // namespace

namespace pdc::testing {

bool isRecorded(cudaStream_t stream, const std::function<void()> &work) {
  if (recording.stream != stream)
    return false;
  recording.graph.nodes.push_back(work);
  return true;
}

bool spoils(cudaStream_t stream) {
  return recording.stream == stream && (recording.isSpoiled = true);
}

bool spoilsAny() { return recording.stream && (recording.isSpoiled = true); }

} // namespace pdc::testing

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (recording.stream)
    return cudaErrorIllegalState;
  recording = {stream, {}, false};
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
  *status = recording.stream && recording.stream == stream ? cudaStreamCaptureStatusActive
                                                           : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  if (recording.stream != stream)
    return cudaErrorIllegalState;
  const Recording recorded = std::exchange(recording, {});
  *graph = recorded.isSpoiled ? nullptr : new CUgraph_st(recorded.graph);
  return recorded.isSpoiled ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *, size_t *count) {
  *count = graph->nodes.size();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable = new CUgraphExec_st{*graph};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
/// A queue holds what it was given by itself.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  for (const std::function<void()> &node : executable->nodes)
    pdc::testing::enqueue(stream, node);
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }

} // extern "C"
