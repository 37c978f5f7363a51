#pragma once

/// Runs CUDA kernels on the host, so that the tests run them without a GPU. Included before every
/// other line of a .cu file that the host's compiler compiles. The threads of a block run as
/// fibers, one after the other in a drawn order, and meet at barriers, shuffles and ballots; blocks
/// run one by one.
#define PDC_CUDA_THREADS
#include <cuda_runtime_api.h>
#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __shared__ static thread_local
#define __launch_bounds__(...)

#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

namespace pdc::testing {

/// What threadIdx and its relatives say.
struct Index {
  unsigned x = 0;
};
extern thread_local Index threadIndex, blockIndex, blockSize, gridSize;

/// Waits for the block's threads.
void meetBlock();
/// Waits for the warp's threads, and gives what thread `lane ^ mask` of them said.
void exchange(const void *mine, void *theirs, size_t bytes, int mask);
/// The bits of those of the warp's threads that said true.
unsigned meetWarp(bool value);

/// Puts the kernel into the stream.
void launch(cudaStream_t stream, unsigned blocks, unsigned threads, std::function<void()> kernel);

} // namespace pdc::testing

#define threadIdx pdc::testing::threadIndex
#define blockIdx pdc::testing::blockIndex
#define blockDim pdc::testing::blockSize
#define gridDim pdc::testing::gridSize

inline void __syncthreads() { pdc::testing::meetBlock(); }
inline int __syncthreads_or(int value) {
  static thread_local int any;
  pdc::testing::meetBlock();
  any = 0;
  pdc::testing::meetBlock();
  any |= value;
  pdc::testing::meetBlock();
  return any;
}
inline int atomicAdd(int *to, int value) { return std::exchange(*to, *to + value); }
template <class T> T atomicMax(T *to, T value) { return std::exchange(*to, std::max(*to, value)); }
template <class T> T atomicMin(T *to, T value) { return std::exchange(*to, std::min(*to, value)); }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline unsigned __ballot_sync(unsigned, bool value) { return pdc::testing::meetWarp(value); }
template <class T> T __shfl_xor_sync(unsigned, T value, int mask) {
  T theirs;
  pdc::testing::exchange(&value, &theirs, sizeof value, mask);
  return theirs;
}

#include "runtime/Program.h"

namespace pdc::runtime::cuda {

template <class... Parameters, class... Arguments>
void launch(const Run &run, int64_t blocks, int threads, void (*kernel)(Parameters...),
            Arguments... arguments) {
  if (blocks > 0)
    pdc::testing::launch(static_cast<cudaStream_t>(run.queue), static_cast<unsigned>(blocks),
                         static_cast<unsigned>(threads),
                         [=] { kernel(static_cast<Parameters>(arguments)...); });
}

} // namespace pdc::runtime::cuda
