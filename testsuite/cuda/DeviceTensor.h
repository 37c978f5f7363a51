#pragma once

#include "runtime/cuda/Launch.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace pdc::testing {

/// A tensor of the device.
template <class T> class DeviceTensor {
public:
  DeviceTensor(cudaStream_t stream, const std::vector<T> &values)
      : stream(stream), count(values.size()) {
    runtime::cuda::require(cudaMalloc(&memory, std::max<size_t>(count, 1) * sizeof(T)),
                           "cudaMalloc");
    runtime::cuda::require(
        cudaMemcpyAsync(memory, values.data(), count * sizeof(T), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
    runtime::cuda::require(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  DeviceTensor(cudaStream_t stream, int64_t count)
      : DeviceTensor(stream, std::vector<T>(size_t(count), T(9.0f))) {}
  DeviceTensor(const DeviceTensor &) = delete;
  ~DeviceTensor() { cudaFree(memory); }

  operator T *() const { return data(); }
  T *data() const { return static_cast<T *>(memory); }
  std::vector<T> read() const {
    std::vector<T> values(count);
    runtime::cuda::require(
        cudaMemcpyAsync(values.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync");
    runtime::cuda::require(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return values;
  }

private:
  const cudaStream_t stream;
  const size_t count;
  void *memory = nullptr;
};

} // namespace pdc::testing
