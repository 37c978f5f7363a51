#pragma once

#include "runtime/kernels/LabelledFields.h"
#include "runtime/kernels/Softmax.h"

#include <cstddef>

namespace pdc::runtime {

/// The sum over labels of weight[label] * -log softmax(scores)[label], and the log probabilities;
/// both optional at the end: `weights` (one per class), `logProbabilities`. Weights alone come with
/// a nullptr before the loss.
class SoftmaxCrossEntropy {
public:
  SoftmaxCrossEntropy(const Device &device, const LabelledFields &fields)
      : fields(fields), logSoftmax(device, scoreRows(fields)) {}
  void operator()(const Run &run, const float *scores, const int64_t *labels, float *loss) const;
  void operator()(const Run &run, const float *scores, const int32_t *labels, float *loss) const;
  void operator()(const Run &run, const float *scores, const int64_t *labels, float *loss,
                  float *logProbabilities) const;
  void operator()(const Run &run, const float *scores, const int32_t *labels, float *loss,
                  float *logProbabilities) const;
  void operator()(const Run &run, const float *scores, const int64_t *labels, const float *weights,
                  float *loss, float *logProbabilities) const;
  void operator()(const Run &run, const float *scores, const int32_t *labels, const float *weights,
                  float *loss, float *logProbabilities) const;
  void operator()(const Run &run, const float *scores, const int64_t *labels, const float *weights,
                  std::nullptr_t, float *loss) const;
  void operator()(const Run &run, const float *scores, const int32_t *labels, const float *weights,
                  std::nullptr_t, float *loss) const;

private:
  LabelledFields fields;
  Softmax logSoftmax;
};

} // namespace pdc::runtime
