#include "testsuite/cuda/HostNetworks.h"
#include "testsuite/cuda/HostStreams.h"

#include <cstdlib>

using pdc::testing::Described;
using pdc::testing::Pointers;

namespace {

size_t sizeOf(cudnnBackendAttributeType_t type) {
  return type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_VOID_PTR || type == CUDNN_TYPE_HANDLE ? 8
         : type == CUDNN_TYPE_CHAR || type == CUDNN_TYPE_BOOLEAN                              ? 1
                                                                                              : 4;
}

struct Network {
  cudaStream_t stream = nullptr;
};

Described &of(cudnnBackendDescriptor_t raw) { return *static_cast<Described *>(raw); }

} // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new Network);
  return CUDNN_STATUS_SUCCESS;
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
const char *cudnnGetErrorString(cudnnStatus_t) { return "an error"; }

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *raw) {
  *raw = new Described{type, {}, {}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t raw) {
  delete static_cast<Described *>(raw);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }

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

/// One engine without notes; a configuration is its graph.
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t raw,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t, int64_t *count,
                                       void *values) {
  *count = 0;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    *count =
        of(raw).list<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE)[0] == CUDNN_HEUR_MODE_A;
    if (values && *count)
      of(*static_cast<cudnnBackendDescriptor_t *>(values))
          .parts[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] =
          of(raw).parts[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH];
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    *static_cast<int64_t *>(values) = 0;
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
  const std::vector<Described> operations = of(plan)
                                                .part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
                                                .part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
                                                .parts.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  const cudnnBackendDescriptorType_t first = operations[0].type;
  const bool isConvolution =
      first == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
      first == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
      first == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
  pdc::testing::enqueue(reinterpret_cast<Network *>(handle)->stream,
                        [operations, pointers, isConvolution] {
                          isConvolution ? pdc::testing::convolve(operations[0], pointers)
                                        : pdc::testing::operate(operations, pointers);
                        });
  return CUDNN_STATUS_SUCCESS;
}

} // extern "C"
