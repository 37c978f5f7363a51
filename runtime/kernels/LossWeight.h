#pragma once

#include "runtime/Program.h"

#include <cstdint>

namespace pdc::runtime {

struct LossWeightFields {
  int64_t classes = 0; ///< that have weights
  int64_t count = 0;
  int64_t ignoreIndex = 0;
  int64_t ignores = 0;
};

/// What a sum of losses is divided by: the number of labels that count, or their classes' weights.
class LossWeight {
public:
  LossWeight(const Device &, const LossWeightFields &fields) : fields(fields) {}
  template <class Label> void operator()(const Run &, const Label *labels, float *weight) const {
    int64_t counted = 0;
    for (int64_t i = 0; i < fields.count; ++i)
      counted += !fields.ignores || static_cast<int64_t>(labels[i]) != fields.ignoreIndex;
    *weight = static_cast<float>(counted);
  }
  /// Weights of classes; labels outside weigh nothing, the loss refuses them.
  template <class Label>
  void operator()(const Run &, const Label *labels, const float *weights, float *weight) const {
    double sum = 0;
    for (int64_t i = 0; i < fields.count; ++i) {
      const auto label = static_cast<int64_t>(labels[i]);
      const bool isClass = label >= 0 && label < fields.classes;
      if (isClass && !(fields.ignores && label == fields.ignoreIndex))
        sum += weights[label];
    }
    *weight = static_cast<float>(sum);
  }

private:
  LossWeightFields fields;
};

} // namespace pdc::runtime
