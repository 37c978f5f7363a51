#pragma once

#include "runtime/Program.h"
#include "runtime/cuda/Fields.h"

#include <concepts>
#include <initializer_list>
#include <memory>

/// What generated CUDA stages call. Each class is the CPU's kernel of the same name (the contracts
/// stand in runtime/kernels): made once, called with device pointers, operands first. A call puts
/// its work into the run's queue and returns; none allocates, waits or copies beside it. Images are
/// channels-last (acdb), all sums have a fixed order.
namespace pdc::runtime::cuda {

/// cuDNN's convolution, then bias and relu in one pass over the result.
class Convolution {
public:
  Convolution(const Device &device, const ConvolutionFields &fields);
  ~Convolution();
  void operator()(const Run &run, const float *x, const float *w, const float *bias, float *y);
  void operator()(const Run &run, const float *x, const float *w, float *y) {
    (*this)(run, x, w, nullptr, y);
  }

private:
  ConvolutionFields fields;
  std::unique_ptr<class ConvolutionPlan> plan;
};

class ConvolutionInputGradient {
public:
  ConvolutionInputGradient(const Device &device, const ConvolutionFields &fields);
  ~ConvolutionInputGradient();
  void operator()(const Run &run, const float *dy, const float *w, float *dx);

private:
  std::unique_ptr<class ConvolutionPlan> plan;
};

/// A sum is cuDNN's beta = 1.
class ConvolutionWeightGradient {
public:
  ConvolutionWeightGradient(const Device &device, const ConvolutionFields &fields);
  ~ConvolutionWeightGradient();
  void operator()(const Run &run, const float *dy, const float *x, float *dw, bool add);

private:
  std::unique_ptr<class ConvolutionPlan> fresh, adding;
};

/// cuBLASLt, with its epilogues for a bias per column and relu; any other bias is added behind.
class MatrixProduct {
public:
  MatrixProduct(const Device &device, const MatrixProductFields &fields);
  ~MatrixProduct();
  void operator()(const Run &run, const float *a, const float *b, const float *bias, float *y) {
    call(run, a, b, bias, y, false);
  }
  void operator()(const Run &run, const float *a, const float *b, float *y) {
    call(run, a, b, nullptr, y, false);
  }
  void operator()(const Run &run, const float *a, const float *b, float *y,
                  std::same_as<bool> auto add) {
    call(run, a, b, nullptr, y, add);
  }

private:
  void call(const Run &run, const float *a, const float *b, const float *bias, float *y, bool add);
  std::unique_ptr<class MatrixProductPlan> plan;
};

class Pooling {
public:
  Pooling(const Device &, const PoolingFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, float *y) const;
  /// `positions`: the tap of each maximum within its window, in bytes below 256 taps, else i32.
  void operator()(const Run &run, const float *x, float *y, void *positions) const;

private:
  PoolingFields fields;
};

class PoolingGradient {
public:
  PoolingGradient(const Device &, const PoolingFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *dy, float *dx) const;
  void operator()(const Run &run, const float *dy, const void *positions, float *dx) const;

private:
  PoolingFields fields;
};

class BatchNormalization {
public:
  BatchNormalization(const Device &, const BatchNormalizationFields &fields) : fields(fields) {}
  template <class... Pointers> void operator()(const Run &run, Pointers *...pointers) const {
    call(run, {pointers...});
  }

private:
  void call(const Run &run, std::initializer_list<const float *> pointers) const;
  BatchNormalizationFields fields;
};

class BatchNormalizationInference {
public:
  BatchNormalizationInference(const Device &, const BatchNormalizationFields &fields)
      : fields(fields) {}
  void operator()(const Run &run, const float *x, const float *scale, const float *bias,
                  const float *mean, const float *variance, float *y) const;

private:
  BatchNormalizationFields fields;
};

class BatchNormalizationGradient {
public:
  BatchNormalizationGradient(const Device &, const BatchNormalizationFields &fields)
      : fields(fields) {}
  template <class... Pointers> void operator()(const Run &run, Pointers *...pointers) const {
    call(run, {pointers...});
  }

private:
  void call(const Run &run, std::initializer_list<const float *> pointers) const;
  BatchNormalizationFields fields;
};

class LayerNormalization {
public:
  LayerNormalization(const Device &, const LayerNormalizationFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, const float *scale, const float *bias,
                  float *y) const {
    (*this)(run, x, scale, bias, y, nullptr, nullptr);
  }
  void operator()(const Run &run, const float *x, const float *scale, const float *bias, float *y,
                  float *inverse) const {
    (*this)(run, x, scale, bias, y, nullptr, inverse);
  }
  void operator()(const Run &run, const float *x, const float *scale, const float *bias, float *y,
                  float *mean, float *inverse) const;

private:
  LayerNormalizationFields fields;
};

class LayerNormalizationInputGradient {
public:
  LayerNormalizationInputGradient(const Device &, const LayerNormalizationFields &fields)
      : fields(fields) {}
  void operator()(const Run &run, const float *dy, const float *x, const float *scale,
                  const float *mean, const float *inverse, float *dx) const;

private:
  LayerNormalizationFields fields;
};

class LayerNormalizationScaleGradient {
public:
  LayerNormalizationScaleGradient(const Device &, const LayerNormalizationFields &fields)
      : fields(fields) {}
  void operator()(const Run &run, const float *dy, const float *x, const float *mean,
                  const float *inverse, float *dscale, bool add) const;

private:
  LayerNormalizationFields fields;
};

class LocalResponse {
public:
  LocalResponse(const Device &, const LocalResponseFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, float *y) const;

private:
  LocalResponseFields fields;
};

class LocalResponseGradient {
public:
  LocalResponseGradient(const Device &, const LocalResponseFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *dy, const float *x, const float *y, float *dx) const;

private:
  LocalResponseFields fields;
};

class Softmax {
public:
  Softmax(const Device &, const SoftmaxFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, float *y) const;

private:
  SoftmaxFields fields;
};

class SoftmaxGradient {
public:
  SoftmaxGradient(const Device &, const SoftmaxFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *dy, const float *y, float *dx) const;

private:
  SoftmaxFields fields;
};

/// A label outside the classes makes the loss NaN, which the runtime refuses before the update.
class SoftmaxCrossEntropy {
public:
  SoftmaxCrossEntropy(const Device &, const LabelledFields &fields) : fields(fields) {}
  template <class Label>
  void operator()(const Run &run, const float *scores, const Label *labels, float *loss) const {
    call(run, scores, labels, nullptr, loss, nullptr);
  }
  template <class Label>
  void operator()(const Run &run, const float *scores, const Label *labels, float *loss,
                  float *logProbabilities) const {
    call(run, scores, labels, nullptr, loss, logProbabilities);
  }
  template <class Label>
  void operator()(const Run &run, const float *scores, const Label *labels, const float *weights,
                  float *loss, float *logProbabilities) const {
    call(run, scores, labels, weights, loss, logProbabilities);
  }
  template <class Label>
  void operator()(const Run &run, const float *scores, const Label *labels, const float *weights,
                  std::nullptr_t, float *loss) const {
    call(run, scores, labels, weights, loss, nullptr);
  }

private:
  /// Label: int64_t, int32_t.
  template <class Label>
  void call(const Run &run, const float *scores, const Label *labels, const float *weights,
            float *loss, float *logProbabilities) const;
  LabelledFields fields;
};

class SoftmaxCrossEntropyGradient {
public:
  SoftmaxCrossEntropyGradient(const Device &, const LabelledFields &fields) : fields(fields) {}
  template <class Label>
  void operator()(const Run &run, const float *dy, const float *logProbabilities,
                  const Label *labels, float *dx) const {
    (*this)(run, dy, logProbabilities, labels, static_cast<const float *>(nullptr), dx);
  }
  template <class Label>
  void operator()(const Run &run, const float *dy, const float *logProbabilities,
                  const Label *labels, const float *weights, float *dx) const;

private:
  LabelledFields fields;
};

class NegativeLogLikelihood {
public:
  NegativeLogLikelihood(const Device &, const LabelledFields &fields) : fields(fields) {}
  template <class Label>
  void operator()(const Run &run, const float *logProbabilities, const Label *labels,
                  float *loss) const {
    (*this)(run, logProbabilities, labels, static_cast<const float *>(nullptr), loss);
  }
  template <class Label>
  void operator()(const Run &run, const float *logProbabilities, const Label *labels,
                  const float *weights, float *loss) const;

private:
  LabelledFields fields;
};

class NegativeLogLikelihoodGradient {
public:
  NegativeLogLikelihoodGradient(const Device &, const LabelledFields &fields) : fields(fields) {}
  template <class Label>
  void operator()(const Run &run, const float *dy, const Label *labels, float *dx) const {
    (*this)(run, dy, labels, static_cast<const float *>(nullptr), dx);
  }
  template <class Label>
  void operator()(const Run &run, const float *dy, const Label *labels, const float *weights,
                  float *dx) const;

private:
  LabelledFields fields;
};

class CorrectPredictions {
public:
  CorrectPredictions(const Device &, const LabelledFields &fields) : fields(fields) {}
  template <class Label>
  void operator()(const Run &run, const float *scores, const Label *labels, float *correct) const;

private:
  LabelledFields fields;
};

class LossWeight {
public:
  LossWeight(const Device &, const LossWeightFields &fields) : fields(fields) {}
  template <class Label> void operator()(const Run &run, const Label *labels, float *weight) const {
    (*this)(run, labels, static_cast<const float *>(nullptr), weight);
  }
  template <class Label>
  void operator()(const Run &run, const Label *labels, const float *weights, float *weight) const;

private:
  LossWeightFields fields;
};

class PairLoss {
public:
  PairLoss(const Device &, const PairLossFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *prediction, const float *target, float *loss) const;

private:
  PairLossFields fields;
};

class PairLossGradient {
public:
  PairLossGradient(const Device &, const PairLossFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *prediction, const float *target, const float *dy,
                  float *dx) const;

private:
  PairLossFields fields;
};

class ColumnSum {
public:
  ColumnSum(const Device &, const ColumnSumFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, float *sum, bool add) const;

private:
  ColumnSumFields fields;
};

class ReduceSum {
public:
  ReduceSum(const Device &, const ReduceSumFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, float *y, bool add) const;

private:
  ReduceSumFields fields;
};

class Reduce {
public:
  Reduce(const Device &, const ReduceFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, float *y) const;

private:
  ReduceFields fields;
};

class ArgMax {
public:
  ArgMax(const Device &, const ArgMaxFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, int64_t *y) const;

private:
  ArgMaxFields fields;
};

class CumulativeSum {
public:
  CumulativeSum(const Device &, const CumulativeSumFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, float *y) const;

private:
  CumulativeSumFields fields;
};

class TopK {
public:
  TopK(const Device &, const TopKFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, int64_t *y) const;

private:
  TopKFields fields;
};

class Reorder {
public:
  Reorder(const Device &, const ReorderFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, float *y) const;

private:
  ReorderFields fields;
};

class StridedCopy {
public:
  StridedCopy(const Device &, const StridedCopyFields &fields) : fields(fields) {}
  /// T: float, int64_t, int32_t, uint8_t.
  template <class T> void operator()(const Run &run, const T *x, T *y) const;

private:
  StridedCopyFields fields;
};

class Concat {
public:
  Concat(const Device &, const ConcatFields &fields) : fields(fields) {}
  template <class... Pointers> void operator()(const Run &run, Pointers *...pointers) const {
    call(run, {pointers...});
  }

private:
  void call(const Run &run, std::initializer_list<const void *> pointers) const;
  ConcatFields fields;
};

class Split {
public:
  Split(const Device &, const SplitFields &fields) : fields(fields) {}
  template <class T, class... Pointers>
  void operator()(const Run &run, const T *x, Pointers *...parts) const {
    call(run, x, {parts...});
  }

private:
  void call(const Run &run, const void *x, std::initializer_list<void *> parts) const;
  SplitFields fields;
};

/// An index outside its dimension gives NaN (integers: 0), which ends in a loss that is refused.
class Gather {
public:
  Gather(const Device &, const GatherFields &fields) : fields(fields) {}
  /// T: float, int64_t, int32_t, uint8_t; Index: int64_t, int32_t.
  template <class T, class Index>
  void operator()(const Run &run, const T *x, const Index *indices, T *y) const;

private:
  GatherFields fields;
};

/// Each row is summed by the block of its first index, in ascending order: no atomics.
class GatherGradient {
public:
  GatherGradient(const Device &, const GatherFields &fields) : fields(fields) {}
  /// Index: int64_t, int32_t.
  template <class Index>
  void operator()(const Run &run, const Index *indices, const float *dy, float *dx, bool add) const;

private:
  GatherFields fields;
};

class Dropout {
public:
  Dropout(const Device &, const DropoutFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, const int64_t *random, float *y) const;

private:
  DropoutFields fields;
};

class SgdUpdate {
public:
  SgdUpdate(const Device &, const SgdUpdateFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *w, const float *g, const float *scale,
                  const float *learningRate, float *nextW) const;

private:
  SgdUpdateFields fields;
};

class MomentumUpdate {
public:
  MomentumUpdate(const Device &, const MomentumUpdateFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *w, const float *g, const float *v,
                  const float *scale, const float *learningRate, const float *step, float *nextW,
                  float *nextV) const;

private:
  MomentumUpdateFields fields;
};

class AdagradUpdate {
public:
  AdagradUpdate(const Device &, const AdagradUpdateFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *w, const float *g, const float *h,
                  const float *scale, const float *learningRate, const float *step, float *nextW,
                  float *nextH) const;

private:
  AdagradUpdateFields fields;
};

class AdamUpdate {
public:
  AdamUpdate(const Device &, const AdamUpdateFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *w, const float *g, const float *m, const float *v,
                  const float *scale, const float *learningRate, const float *step, float *nextW,
                  float *nextM, float *nextV) const;

private:
  AdamUpdateFields fields;
};

/// sum[i] = value[i], or sum[i] += value[i] where `add`.
void accumulate(const Run &run, int64_t count, float *sum, const float *value, bool add);

} // namespace pdc::runtime::cuda
