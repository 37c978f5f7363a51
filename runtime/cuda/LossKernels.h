#pragma once

#include "runtime/Program.h"
#include "runtime/SmallFloats.h"
#include "runtime/cuda/Fields.h"

#include <cstddef>

/// Losses, their gradients, and what is counted beside them.
namespace pdc::runtime::cuda {

/// A label outside the classes makes the loss NaN, which the runtime refuses before the update.
/// Scores and their gradient: float, BFloat16, Float16; all else is f32.
class SoftmaxCrossEntropy {
public:
  SoftmaxCrossEntropy(const Device &, const LabelledFields &fields) : fields(fields) {}
  template <class T, class Label>
  void operator()(const Run &run, const T *scores, const Label *labels, float *loss) const {
    call(run, scores, labels, nullptr, loss, nullptr);
  }
  template <class T, class Label>
  void operator()(const Run &run, const T *scores, const Label *labels, float *loss,
                  float *logProbabilities) const {
    call(run, scores, labels, nullptr, loss, logProbabilities);
  }
  template <class T, class Label>
  void operator()(const Run &run, const T *scores, const Label *labels, const float *weights,
                  float *loss, float *logProbabilities) const {
    call(run, scores, labels, weights, loss, logProbabilities);
  }
  template <class T, class Label>
  void operator()(const Run &run, const T *scores, const Label *labels, const float *weights,
                  std::nullptr_t, float *loss) const {
    call(run, scores, labels, weights, loss, nullptr);
  }

private:
  /// Label: int64_t, int32_t.
  template <class T, class Label>
  void call(const Run &run, const T *scores, const Label *labels, const float *weights, float *loss,
            float *logProbabilities) const;
  LabelledFields fields;
};

class SoftmaxCrossEntropyGradient {
public:
  SoftmaxCrossEntropyGradient(const Device &, const LabelledFields &fields) : fields(fields) {}
  template <class Label, class T>
  void operator()(const Run &run, const float *dy, const float *logProbabilities,
                  const Label *labels, T *dx) const {
    (*this)(run, dy, logProbabilities, labels, static_cast<const float *>(nullptr), dx);
  }
  template <class Label, class T>
  void operator()(const Run &run, const float *dy, const float *logProbabilities,
                  const Label *labels, const float *weights, T *dx) const;

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
