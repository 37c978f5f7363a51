#pragma once

#include "runtime/kernels/BatchNormalizationFields.h"
#include "runtime/kernels/ChannelLayout.h"

namespace pdc::runtime {

/// Evaluation: by the running statistics.
class BatchNormalizationInference {
public:
  BatchNormalizationInference(const Device &device, const BatchNormalizationFields &fields);
  void operator()(const Run &run, const float *x, const float *scale, const float *bias,
                  const float *mean, const float *variance, float *y);

private:
  BatchNormalizationFields fields;
  ChannelLayout shape;
  int threads;
};

} // namespace pdc::runtime
