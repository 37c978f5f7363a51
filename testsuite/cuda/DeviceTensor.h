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
      : DeviceTensor(stream, values.size(), Unset{}) {
    runtime::cuda::require(
        cudaMemcpyAsync(memory, values.data(), count * sizeof(T), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
    runtime::cuda::require(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  DeviceTensor(cudaStream_t stream, int64_t count)
      : DeviceTensor(stream, std::vector<T>(size_t(count), T(9.0f))) {}
  /// Of room whose content is not read before it is written.
  static DeviceTensor unset(cudaStream_t stream, int64_t count) {
    return {stream, static_cast<size_t>(count), Unset{}};
  }
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
  struct Unset {};
  DeviceTensor(cudaStream_t stream, size_t count, Unset) : stream(stream), count(count) {
    runtime::cuda::require(cudaMalloc(&memory, std::max<size_t>(count, 1) * sizeof(T)),
                           "cudaMalloc");
  }

  const cudaStream_t stream;
  const size_t count;
  void *memory = nullptr;
};

} // namespace pdc::testing
