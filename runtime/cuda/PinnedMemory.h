#pragma once

#include "runtime/cuda/Launch.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace pdc::runtime::cuda {

/// Host memory that the device copies from by itself; grows to what is asked, which may wait for
/// all that the device runs.
class PinnedMemory {
public:
  PinnedMemory() = default;
  PinnedMemory(const PinnedMemory &) = delete;
  ~PinnedMemory() { free(); }

  void free() {
    cudaFreeHost(data);
    data = nullptr;
    size = 0;
  }
  std::byte *room(int64_t bytes) {
    if (bytes > size) {
      free();
      require(cudaHostAlloc(&data, size_t(bytes), cudaHostAllocDefault), "cudaHostAlloc");
      size = bytes;
    }
    return static_cast<std::byte *>(data);
  }

private:
  void *data = nullptr;
  int64_t size = 0;
};

} // namespace pdc::runtime::cuda
