#pragma once

#include "runtime/SmallFloats.h"

#include <library_types.h>

#include <cstdint>

/// Elements of matrices and images as the libraries store them.
namespace pdc::testing {

using runtime::BFloat16;
using runtime::Float16;

inline float load(const void *from, cudaDataType_t type, int64_t i) {
  return type == CUDA_R_16BF  ? float(static_cast<const BFloat16 *>(from)[i])
         : type == CUDA_R_16F ? float(static_cast<const Float16 *>(from)[i])
                              : static_cast<const float *>(from)[i];
}
inline void store(void *to, cudaDataType_t type, int64_t i, float value) {
  if (type == CUDA_R_16BF)
    static_cast<BFloat16 *>(to)[i] = BFloat16(value);
  else if (type == CUDA_R_16F)
    static_cast<Float16 *>(to)[i] = Float16(value);
  else
    static_cast<float *>(to)[i] = value;
}

} // namespace pdc::testing
