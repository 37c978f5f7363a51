#pragma once

#include "runtime/kernels/LabelledFields.h"
#include "runtime/kernels/Softmax.h"

namespace pdc::runtime {

/// The sum over labels of weight[label] * -log softmax(scores)[label]; `weights`, one per class,
/// may be null. The scales of rows, [samples, 2, pixels], are the largest score and the logarithm
/// of the sum of exponentials relative to it.
class SoftmaxCrossEntropy {
public:
  SoftmaxCrossEntropy(const Device &device, const LabelledFields &fields)
      : fields(fields), threads(device.threads), logSoftmax(device, scoreRows(fields)) {}
  /// Label: int64_t, int32_t. Results as the field of that name says.
  template <class Label, class... Results>
  void operator()(const Run &run, const float *scores, const Label *labels, const float *weights,
                  Results *...results) const {
    call(run, scores, labels, weights, {fields, {results...}});
  }

private:
  template <class Label>
  void call(const Run &run, const float *scores, const Label *labels, const float *weights,
            const CrossEntropyResults &results) const;
  LabelledFields fields;
  int threads;
  Softmax logSoftmax;
};

} // namespace pdc::runtime
