#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/AttentionFields.h"

namespace pdc::runtime {

/// y, and of each row the logarithm of the sum of its scores' exponentials. A head of keys is one
/// thread's work, so no bits depend on threads. `mask` (floats that are added, or bytes) and
/// `random` (seed, step, sample numbers) may be nullptr.
class Attention {
public:
  Attention(const Device &device, const AttentionFields &fields);
  void operator()(const Run &run, const float *q, const float *k, const float *v, const void *mask,
                  const int64_t *random, float *y) const {
    (*this)(run, q, k, v, mask, random, y, nullptr);
  }
  void operator()(const Run &run, const float *q, const float *k, const float *v, const void *mask,
                  const int64_t *random, float *y, float *logSums) const;

private:
  AttentionFields fields;
  int threads;
};

} // namespace pdc::runtime
