#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

/// What replicas do with one another's gradients and running statistics, put into `stream`.
namespace pdc::runtime::cuda {

/// to += from.
void addTo(cudaStream_t stream, float *to, const float *from, int64_t count);
void divideBy(cudaStream_t stream, float *values, float by, int64_t count);

} // namespace pdc::runtime::cuda
