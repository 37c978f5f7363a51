#pragma once

#include "runtime/cuda/CudnnGraph.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

/// An H200 as cuDNN is told of it where there is none: it accepts a description of a device in the
/// device's place (h200.json, filled in by hand). One file of a program includes this.

extern "C" {

/// The two questions that the library asks CUDA while it makes a plan.
cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
  std::memset(properties, 0, sizeof *properties);
  properties->major = 9;
  properties->multiProcessorCount = 132;
  properties->warpSize = 32;
  properties->sharedMemPerBlock = 49152;
  properties->sharedMemPerBlockOptin = 232448;
  properties->sharedMemPerMultiprocessor = 233472;
  properties->reservedSharedMemPerBlock = 1024;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->l2CacheSize = 62914560;
  properties->totalGlobalMem = 150754820096ull;
  properties->maxBlocksPerMultiProcessor = 32;
  return cudaSuccess;
}

} // extern "C"

namespace pdc {

inline runtime::cuda::Descriptor h200() {
  std::ifstream file(PDC_SOURCE_DIR "/testsuite/cuda/h200.json");
  const std::string json((std::istreambuf_iterator<char>(file)), {});
  runtime::cuda::Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "h200.json");
  properties.setRaw(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                    static_cast<int64_t>(json.size()) + 1, json.c_str());
  properties.finish();
  return properties;
}

} // namespace pdc
