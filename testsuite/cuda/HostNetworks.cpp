#include "testsuite/cuda/HostNetworks.h"

#include "testsuite/cuda/HostGraphs.h"
#include "testsuite/cuda/HostStreams.h"

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

using pdc::testing::Described;
using pdc::testing::Pointers;

namespace {

/// Of every plan, which writes all over it.
constexpr int64_t kWorkspaceBytes = 1024;

size_t sizeOf(cudnnBackendAttributeType_t type) {
  return type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_VOID_PTR || type == CUDNN_TYPE_HANDLE ? 8
         : type == CUDNN_TYPE_CHAR || type == CUDNN_TYPE_BOOLEAN                              ? 1
                                                                                              : 4;
}

struct Network {
  cudaStream_t stream = nullptr;
};

Described &of(cudnnBackendDescriptor_t raw) { return *static_cast<Described *>(raw); }

bool lies(const void *pointer, int64_t alignment) {
  return reinterpret_cast<uintptr_t>(pointer) % uintptr_t(alignment) == 0;
}

/// Whether the tensors of an operation are at multiples of what they were described with.
bool lieAligned(const Described &operation, const Pointers &pointers) {
  for (const auto &[name, parts] : operation.parts)
    for (const Described &tensor : parts) {
      if (tensor.type != CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        continue;
      const auto found = pointers.find(tensor.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
      const bool isByValue = tensor.values.contains(CUDNN_ATTR_TENSOR_IS_BY_VALUE) &&
                             tensor.one<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
      if (found != pointers.end() && !isByValue &&
          !lies(found->second, tensor.one<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)))
        return false;
    }
  return true;
}

/// HOST_CUDNN_REFUSES: "plans" are not made, or not the "plan of the best", or "fused plans";
/// "best" engines, the "others", those of "fused" convolutions or "all" fail when they run, or the
/// best when they are "recorded"; each kind for a reason of its own.
std::string_view refusedKind() {
  const char *given = std::getenv("HOST_CUDNN_REFUSES");
  return given ? given : "";
}

bool isBest(const Described &configuration) {
  return configuration.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_A;
}

const std::vector<Described> &operationsOf(const Described &configuration) {
  return configuration.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
      .parts.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
}

/// A convolution alone, or with what stands behind it.
bool isConvolution(const Described &configuration) {
  return operationsOf(configuration).front().type ==
         CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
}
bool isFused(const Described &configuration) {
  return isConvolution(configuration) && operationsOf(configuration).size() > 1;
}

/// The library has kernels that sum their channels for fp16 alone.
bool hasFused(const Described &configuration) {
  if (refusedKind() == "fused plans")
    return false;
  const Described &last = operationsOf(configuration).back();
  return last.type != CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR ||
         last.part(CUDNN_ATTR_OPERATION_GENSTATS_XDESC)
                 .one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_HALF;
}

/// HOST_CUDNN_SLOW: the "best", the "others", "fused" or "plain" convolutions take 20 milliseconds.
bool isSlow(const Described &configuration) {
  const char *given = std::getenv("HOST_CUDNN_SLOW");
  const std::string_view slow = given ? given : "";
  const bool fused = isFused(configuration);
  return slow == (isBest(configuration) ? "best" : "others") || (slow == "fused" && fused) ||
         (slow == "plain" && isConvolution(configuration) && !fused);
}

cudnnStatus_t stateOf(const Described &configuration, cudaStream_t stream) {
  const std::string_view refused = refusedKind();
  const bool best = isBest(configuration);
  cudaStreamCaptureStatus status;
  cudaStreamIsCapturing(stream, &status);
  if (!(refused == "all" || refused == (best ? "best" : "others") ||
        (refused == "fused" && isFused(configuration)) ||
        (refused == "recorded" && best && status != cudaStreamCaptureStatusNone)))
    return CUDNN_STATUS_SUCCESS;
  return best ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_NOT_SUPPORTED;
}

} // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new Network);
  return pdc::testing::spoilsAny() ? CUDNN_STATUS_NOT_INITIALIZED : CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete reinterpret_cast<Network *>(handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  reinterpret_cast<Network *>(handle)->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
size_t cudnnGetVersion() {
  const char *number = std::getenv("HOST_CUDNN_VERSION");
  return number ? std::strtoul(number, nullptr, 10) : CUDNN_VERSION;
}
void cudnnGetLastErrorString(char *text, size_t) { *text = 0; }
const char *cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_EXECUTION_FAILED ? "the execution failed"
         : status == CUDNN_STATUS_NOT_SUPPORTED  ? "not supported"
                                                 : "an error";
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *raw) {
  *raw = new Described{type, {}, {}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t raw) {
  delete static_cast<Described *>(raw);
  return CUDNN_STATUS_SUCCESS;
}
/// A plan loads its kernels, which no stream records.
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t raw) {
  const bool isPlan = of(raw).type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
  if (isPlan && pdc::testing::spoilsAny())
    return CUDNN_STATUS_INTERNAL_ERROR;
  if (!isPlan)
    return CUDNN_STATUS_SUCCESS;
  const Described &configuration = of(raw).part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (refusedKind() == "plans" || (refusedKind() == "plan of the best" && isBest(configuration)) ||
      (isFused(configuration) && !hasFused(configuration)))
    return CUDNN_STATUS_NOT_SUPPORTED;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t raw,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values) {
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    std::vector<Described> parts;
    for (int64_t i = 0; i < count; ++i)
      parts.push_back(of(static_cast<const cudnnBackendDescriptor_t *>(values)[i]));
    of(raw).parts[name] = std::move(parts);
    return CUDNN_STATUS_SUCCESS;
  }
  const auto *bytes = static_cast<const std::byte *>(values);
  of(raw).values[name].assign(bytes, bytes + count * int64_t(sizeOf(type)));
  return CUDNN_STATUS_SUCCESS;
}

/// Each heuristic knows one engine without notes; a configuration is its graph, and who knew it.
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t raw,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t, int64_t *count,
                                       void *values) {
  *count = 0;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    *count = 1;
    if (values)
      of(*static_cast<cudnnBackendDescriptor_t *>(values)) = {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                                              of(raw).values, of(raw).parts};
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    *static_cast<int64_t *>(values) = kWorkspaceBytes;
    *count = 1;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const std::vector<int64_t> ids = of(pack).list<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const std::vector<void *> data = of(pack).list<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  Pointers pointers;
  for (size_t i = 0; i < ids.size(); ++i)
    pointers[ids[i]] = data[i];
  const Described &configuration = of(plan).part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const std::vector<Described> operations = operationsOf(configuration);
  const cudaStream_t stream = reinterpret_cast<Network *>(handle)->stream;
  if (const cudnnStatus_t state = stateOf(configuration, stream); state != CUDNN_STATUS_SUCCESS)
    return state;
  const std::vector<void *> workspace = of(pack).list<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (!pdc::testing::isHere(stream))
    return CUDNN_STATUS_EXECUTION_FAILED;
  if (!lies(workspace[0], 256))
    return CUDNN_STATUS_BAD_PARAM;
  for (const Described &operation : operations)
    if (!lieAligned(operation, pointers))
      return CUDNN_STATUS_BAD_PARAM;
  pdc::testing::enqueue(
      stream, [operations, pointers, scratch = workspace[0], slow = isSlow(configuration)] {
        if (slow)
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        std::memset(scratch, 0xff, kWorkspaceBytes);
        pdc::testing::operate(operations, pointers);
        std::memset(scratch, 0xff, kWorkspaceBytes);
      });
  return CUDNN_STATUS_SUCCESS;
}

} // extern "C"
