#pragma once

#include "runtime/kernels/LayerNormalizationFields.h"

namespace pdc::runtime {

/// dscale [+]= the sum over rows of dy times the normalised row, in fixed order. `mean` is
/// nullptr where rows are not centred.
class LayerNormalizationScaleGradient {
public:
  LayerNormalizationScaleGradient(const Device &device, const LayerNormalizationFields &fields)
      : fields(fields), threads(device.threads) {}
  void operator()(const Run &run, const float *dy, const float *x, const float *mean,
                  const float *inverse, float *dscale, bool add) const;

private:
  LayerNormalizationFields fields;
  int threads;
};

} // namespace pdc::runtime
