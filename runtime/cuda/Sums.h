#pragma once

#include "runtime/Accelerator.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

/// What replicas do with one another's gradients and running statistics, and what the runtime asks
/// of gradients; put into `stream`.
namespace pdc::runtime::cuda {

/// to += from.
void addTo(cudaStream_t stream, float *to, const float *from, int64_t count);
/// *result = 1, or 0 where one of the values is not finite.
void testFinite(cudaStream_t stream, std::span<const std::span<const float>> tensors,
                float *result);
/// How many of the first tensors one call of addSquares takes. Throws Error where a tensor has too
/// many terms.
size_t squaredTogether(std::span<const AddedTensors> tensors);
/// Bytes of what it works in.
int64_t squaresBytes();
/// The sum of the squares of each, at the beginning of `workspace`.
void addSquares(cudaStream_t stream, std::span<const AddedTensors> tensors, double *workspace);
void divideBy(cudaStream_t stream, float *values, float by, int64_t count);

} // namespace pdc::runtime::cuda
