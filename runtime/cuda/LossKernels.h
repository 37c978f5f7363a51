#pragma once

#include "runtime/Program.h"
#include "runtime/SmallFloats.h"
#include "runtime/cuda/Fields.h"

/// Losses, their gradients, and what is counted beside them.
namespace pdc::runtime::cuda {

/// A label outside the classes makes the loss NaN, which the runtime refuses before the update.
/// Scores and their gradient: float, BFloat16, Float16; all else is f32.
class SoftmaxCrossEntropy {
public:
  SoftmaxCrossEntropy(const Device &, const LabelledFields &fields) : fields(fields) {}
  /// Label: int64_t, int32_t. Results as the field of that name says.
  template <class T, class Label, class... Results>
  void operator()(const Run &run, const T *scores, const Label *labels, const float *weights,
                  Results *...results) const {
    call(run, scores, labels, weights, {fields, {results...}});
  }

private:
  template <class T, class Label>
  void call(const Run &run, const T *scores, const Label *labels, const float *weights,
            const CrossEntropyResults &results) const;
  LabelledFields fields;
};

/// dx may be the scores' own memory where both are of one type and pitch.
class SoftmaxCrossEntropyGradient {
public:
  SoftmaxCrossEntropyGradient(const Device &, const LabelledFields &fields) : fields(fields) {}
  template <class T, class Label, class Gradient>
  void operator()(const Run &run, const T *scores, const float *scales, const Label *labels,
                  const float *dy, const float *weights, Gradient *dx) const;

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
  template <class T, class Label>
  void operator()(const Run &run, const T *scores, const Label *labels, float *correct) const;

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

} // namespace pdc::runtime::cuda
