#pragma once

#include "runtime/kernels/LayerNormalizationFields.h"

namespace pdc::runtime {

/// y = (x - mean) * inverse * scale [+ bias]: `scale` and `bias` have the elements of a row, `mean`
/// and `inverse` (1 / sqrt(variance + epsilon)) one number per row. No bits depend on threads.
class LayerNormalization {
public:
  LayerNormalization(const Device &device, const LayerNormalizationFields &fields)
      : fields(fields), threads(device.threads) {}
  /// `bias` may be nullptr.
  void operator()(const Run &run, const float *x, const float *scale, const float *bias,
                  float *y) const;
  void operator()(const Run &run, const float *x, const float *scale, const float *bias, float *y,
                  float *mean, float *inverse) const;
  /// Of rows that are not centred: without their means.
  void operator()(const Run &run, const float *x, const float *scale, const float *bias, float *y,
                  float *inverse) const {
    (*this)(run, x, scale, bias, y, nullptr, inverse);
  }

private:
  LayerNormalizationFields fields;
  int threads;
};

} // namespace pdc::runtime
