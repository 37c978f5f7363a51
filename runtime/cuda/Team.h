#pragma once

#include "runtime/cuda/Launch.h"

#include <type_traits>

/// Threads that reduce together. All of a team call each function, and get the same result; the
/// order of additions is fixed, so the bits are.
namespace pdc::runtime::cuda {

/// Which work a team has: a thread, a warp or a block per row.
struct TeamShape {
  /// Threads of which a GPU of 132 processors is half full.
  static constexpr int64_t kFillingRows = 132 * 1024;

  int threads; ///< of a team
  int64_t blocks;

  /// Short rows go to warps, several in a block. Where what lies side by side belongs to different
  /// rows (`apart` elements from one of a row to the next) and these fill a GPU, each thread has a
  /// row, so that those of a warp read what lies together.
  static TeamShape of(int64_t rows, int64_t size, int64_t apart = 1) {
    if (apart >= kWarpThreads && rows >= kFillingRows)
      return {1, ceilDivide(rows, kBlockThreads)};
    if (size <= 1024)
      return {kWarpThreads, ceilDivide(rows, kBlockThreads / kWarpThreads)};
    return {kBlockThreads, rows};
  }
  /// start(the number of a team's threads, as a type).
  template <class Start> void choose(Start start) const {
    if (threads == 1)
      start(std::integral_constant<int, 1>());
    else if (threads == kWarpThreads)
      start(std::integral_constant<int, kWarpThreads>());
    else
      start(std::integral_constant<int, kBlockThreads>());
  }
};

#if defined(__CUDACC__) || defined(PDC_CUDA_THREADS)

struct Add {
  template <class T> PDC_EITHER T operator()(T a, T b) const { return a + b; }
};
struct Most {
  template <class T> PDC_EITHER T operator()(T a, T b) const { return a > b ? a : b; }
};

template <class T, class Join> __device__ T warpReduce(T value, Join join) {
  for (int distance = kWarpThreads / 2; distance > 0; distance /= 2)
    value = join(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}

/// A thread, a warp or a block, by its number of threads.
template <int Threads> struct Team {
  static_assert(Threads == 1 || Threads == kWarpThreads || Threads == kBlockThreads,
                "a thread, a warp or a block");

  /// The team's number in the grid, and the thread's in the team.
  __device__ static int64_t index() {
    return Threads == kBlockThreads ? int64_t(blockIdx.x) : globalThread() / Threads;
  }
  __device__ static int thread() { return int(threadIdx.x) % Threads; }

  template <class T, class Join> __device__ static T reduce(T value, Join join) {
    if constexpr (Threads > 1)
      value = warpReduce(value, join);
    if constexpr (Threads > kWarpThreads) {
      constexpr int warps = kBlockThreads / kWarpThreads;
      __shared__ T parts[warps];
      __syncthreads(); // what an earlier call left has been read
      if (threadIdx.x % kWarpThreads == 0)
        parts[threadIdx.x / kWarpThreads] = value;
      __syncthreads();
      value = parts[0];
      for (int warp = 1; warp < warps; ++warp)
        value = join(value, parts[warp]);
    }
    return value;
  }
  template <class T> __device__ static T sum(T value) { return reduce(value, Add()); }
  template <class T> __device__ static T most(T value) { return reduce(value, Most()); }
};

#endif

} // namespace pdc::runtime::cuda
