#pragma once

#include "runtime/kernels/LabelledFields.h"

namespace pdc::runtime {

/// The sum over labels of -weight[label] * logProbabilities[label].
class NegativeLogLikelihood {
public:
  NegativeLogLikelihood(const Device &, const LabelledFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *logProbabilities, const int64_t *labels,
                  float *loss) const;
  void operator()(const Run &run, const float *logProbabilities, const int32_t *labels,
                  float *loss) const;
  void operator()(const Run &run, const float *logProbabilities, const int64_t *labels,
                  const float *weights, float *loss) const;
  void operator()(const Run &run, const float *logProbabilities, const int32_t *labels,
                  const float *weights, float *loss) const;

private:
  LabelledFields fields;
};

} // namespace pdc::runtime
