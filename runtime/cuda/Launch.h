#pragma once

#include "runtime/Program.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

/// How kernels are started, and the arithmetic of grids. What decides which element a thread reads
/// or writes is host-device code, so that it is tested without a GPU.
namespace pdc::runtime::cuda {

#define PDC_EITHER __host__ __device__
/// Before a loop whose arrays stay in registers only where each step knows its number.
#ifdef __CUDACC__
#define PDC_UNROLL _Pragma("unroll")
#else
#define PDC_UNROLL
#endif

inline constexpr int kBlockThreads = 256;
inline constexpr int kWarpThreads = 32;

PDC_EITHER constexpr int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline cudaStream_t streamOf(const Run &run) { return static_cast<cudaStream_t>(run.queue); }

/// Whether what is put into the queue is recorded as a graph, and runs later.
bool isRecorded(const Run &run);

/// Throws Error naming the call unless it succeeded.
void require(cudaError_t code, const char *call);

#ifdef __CUDACC__
/// Puts a kernel over `blocks` x `threads` threads into the run's queue. (Where the compiler knows
/// no CUDA, as in the tests, the includer brings its own `launch`.)
template <class... Parameters, class... Arguments>
void launch(const Run &run, int64_t blocks, int threads, void (*kernel)(Parameters...),
            Arguments... arguments) {
  if (blocks <= 0)
    return;
  // The values are parameters, since instances of std::tuple go too deep for nvcc where a loop
  // reads a hundred tensors. Its own error: the last one may be of what a library tried and gave
  // up.
  auto start = [&](std::remove_cv_t<Parameters>... values) {
    void *addresses[] = {&values..., nullptr};
    require(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks)),
                             dim3(static_cast<unsigned>(threads)), addresses, 0, streamOf(run)),
            "the launch of a kernel");
  };
  start(static_cast<Parameters>(arguments)...);
}
#endif

/// Elements that a thread of overSpread has.
inline constexpr int kSpread = 4;

/// A thread per kSpread elements, of a kernel that calls overSpread.
template <class... Parameters, class... Arguments>
void launchSpread(const Run &run, int64_t elements, void (*kernel)(Parameters...),
                  Arguments... arguments) {
  launch(run, ceilDivide(elements, int64_t(kSpread) * kBlockThreads), kBlockThreads, kernel,
         arguments...);
}

/// One thread per element.
template <class... Parameters, class... Arguments>
void launchOver(const Run &run, int64_t elements, void (*kernel)(Parameters...),
                Arguments... arguments) {
  launch(run, ceilDivide(elements, kBlockThreads), kBlockThreads, kernel, arguments...);
}

#if defined(__CUDACC__) || defined(PDC_CUDA_THREADS)
__device__ inline int64_t globalThread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/// write(i, read(i)) for the thread's elements, a block's threads apart: all are read before one is
/// written.
template <class Read, class Write>
__device__ void overSpread(int64_t elements, Read read, Write write) {
  const int64_t begin = int64_t(blockIdx.x) * kSpread * kBlockThreads + threadIdx.x;
  decltype(read(begin)) values[kSpread];
  PDC_UNROLL
  for (int j = 0; j < kSpread; ++j) {
    const int64_t i = begin + j * kBlockThreads;
    values[j] = read(i < elements ? i : 0);
  }
  PDC_UNROLL
  for (int j = 0; j < kSpread; ++j)
    if (const int64_t i = begin + j * kBlockThreads; i < elements)
      write(i, values[j]);
}
#endif

} // namespace pdc::runtime::cuda
