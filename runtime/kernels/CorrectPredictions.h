#pragma once

#include "runtime/kernels/LabelledFields.h"

namespace pdc::runtime {

/// How many labels have the highest score; the first of equal scores wins.
class CorrectPredictions {
public:
  CorrectPredictions(const Device &, const LabelledFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *scores, const int64_t *labels, float *correct) const;
  void operator()(const Run &run, const float *scores, const int32_t *labels, float *correct) const;

private:
  LabelledFields fields;
};

} // namespace pdc::runtime
