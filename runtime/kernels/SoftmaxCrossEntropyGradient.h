#pragma once

#include "runtime/kernels/LabelledFields.h"

namespace pdc::runtime {

/// dx = dy * weight[label] * (softmax - [class is the label]) from the scores and the scales that
/// SoftmaxCrossEntropy has given; dy is one number, `weights` may be null. dx may be the scores'
/// own memory.
class SoftmaxCrossEntropyGradient {
public:
  SoftmaxCrossEntropyGradient(const Device &device, const LabelledFields &fields)
      : fields(fields), threads(device.threads) {}
  /// Label: int64_t, int32_t.
  template <class Label>
  void operator()(const Run &run, const float *scores, const float *scales, const Label *labels,
                  const float *dy, const float *weights, float *dx) const;

private:
  LabelledFields fields;
  int threads;
};

} // namespace pdc::runtime
