#pragma once

#include "runtime/kernels/LabelledFields.h"

namespace pdc::runtime {

/// -dy * weight[label] at the labels, zero elsewhere; dy is one number.
class NegativeLogLikelihoodGradient {
public:
  NegativeLogLikelihoodGradient(const Device &, const LabelledFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *dy, const int64_t *labels, float *dx) const;
  void operator()(const Run &run, const float *dy, const int32_t *labels, float *dx) const;
  void operator()(const Run &run, const float *dy, const int64_t *labels, const float *weights,
                  float *dx) const;
  void operator()(const Run &run, const float *dy, const int32_t *labels, const float *weights,
                  float *dx) const;

private:
  LabelledFields fields;
};

} // namespace pdc::runtime
