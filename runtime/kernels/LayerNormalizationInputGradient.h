#pragma once

#include "runtime/kernels/LayerNormalizationFields.h"

namespace pdc::runtime {

/// dx from dy and what the forward pass kept; `mean` is nullptr where rows are not centred.
class LayerNormalizationInputGradient {
public:
  LayerNormalizationInputGradient(const Device &device, const LayerNormalizationFields &fields)
      : fields(fields), threads(device.threads) {}
  void operator()(const Run &run, const float *dy, const float *x, const float *scale,
                  const float *mean, const float *inverse, float *dx) const;

private:
  LayerNormalizationFields fields;
  int threads;
};

} // namespace pdc::runtime
