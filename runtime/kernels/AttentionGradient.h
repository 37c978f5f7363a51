#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/AttentionFields.h"

#include <initializer_list>

namespace pdc::runtime {

/// dq, dk, dv and the mask's gradient (summed over the batch where the mask is one for all of it),
/// or some of them, from scores that are computed again.
class AttentionGradient {
public:
  AttentionGradient(const Device &device, const AttentionFields &fields);
  template <class... Results>
  void operator()(const Run &run, const float *dy, const float *q, const float *k, const float *v,
                  const float *y, const float *logSums, const void *mask, const int64_t *random,
                  Results *...results) const {
    call(run, {dy, q, k, v, y, logSums, mask, random}, {results...});
  }

private:
  void call(const Run &run, const AttentionOperands &operands,
            std::initializer_list<float *> results) const;
  AttentionFields fields;
  int threads;
};

} // namespace pdc::runtime
