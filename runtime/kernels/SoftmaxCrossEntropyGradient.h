#pragma once

#include "runtime/kernels/LabelledFields.h"

namespace pdc::runtime {

/// dx = dy * weight[label] * (softmax - [class is the label]) from the log probabilities; dy is one
/// number.
class SoftmaxCrossEntropyGradient {
public:
  SoftmaxCrossEntropyGradient(const Device &device, const LabelledFields &fields)
      : fields(fields), threads(device.threads) {}
  void operator()(const Run &run, const float *dy, const float *logProbabilities,
                  const int64_t *labels, float *dx) const;
  void operator()(const Run &run, const float *dy, const float *logProbabilities,
                  const int32_t *labels, float *dx) const;
  void operator()(const Run &run, const float *dy, const float *logProbabilities,
                  const int64_t *labels, const float *weights, float *dx) const;
  void operator()(const Run &run, const float *dy, const float *logProbabilities,
                  const int32_t *labels, const float *weights, float *dx) const;

private:
  LabelledFields fields;
  int threads;
};

} // namespace pdc::runtime
