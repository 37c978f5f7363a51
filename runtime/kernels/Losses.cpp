#include "runtime/Error.h"
#include "runtime/kernels/CorrectPredictions.h"
#include "runtime/kernels/NegativeLogLikelihood.h"
#include "runtime/kernels/NegativeLogLikelihoodGradient.h"
#include "runtime/kernels/SoftmaxCrossEntropy.h"
#include "runtime/kernels/SoftmaxCrossEntropyGradient.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pdc::runtime {

namespace {

/// Calls visit(first score of the label's row, label) for the labels that count, in order.
template <class Label, class Visit>
void forEachLabel(const LabelledFields &f, const Label *labels, Visit visit) {
  for (int64_t i = 0; i < f.samples * f.pixels; ++i) {
    const int64_t label = static_cast<int64_t>(labels[i]);
    if (f.ignores && label == f.ignoreIndex)
      continue;
    if (label < 0 || label >= f.classes)
      throw DataError(i / f.pixels, label, 0, f.classes - 1);
    visit(i / f.pixels * f.classes * f.pixels + i % f.pixels, label);
  }
}

void logSoftmax(const LabelledFields &f, const float *scores, float *logProbabilities) {
  for (int64_t i = 0; i < f.samples * f.pixels; ++i) {
    const int64_t row = i / f.pixels * f.classes * f.pixels + i % f.pixels;
    float most = -std::numeric_limits<float>::infinity(), sum = 0;
    for (int64_t c = 0; c < f.classes; ++c)
      most = std::max(most, scores[row + c * f.pixels]);
    for (int64_t c = 0; c < f.classes; ++c)
      sum += std::exp(scores[row + c * f.pixels] - most);
    // The largest score first: large scores would swallow the logarithm.
    const float shift = std::log(sum);
    for (int64_t c = 0; c < f.classes; ++c)
      logProbabilities[row + c * f.pixels] = (scores[row + c * f.pixels] - most) - shift;
  }
}

/// The same for one row, when nobody keeps the log probabilities.
float rowLoss(const LabelledFields &f, const float *scores, int64_t row, int64_t label) {
  float most = -std::numeric_limits<float>::infinity(), sum = 0;
  for (int64_t c = 0; c < f.classes; ++c)
    most = std::max(most, scores[row + c * f.pixels]);
  for (int64_t c = 0; c < f.classes; ++c)
    sum += std::exp(scores[row + c * f.pixels] - most);
  return std::log(sum) - (scores[row + label * f.pixels] - most);
}

template <class Label>
void likelihood(const LabelledFields &f, const float *logProbabilities, const Label *labels,
                const float *weights, float *loss) {
  double sum = 0;
  forEachLabel(f, labels, [&](int64_t row, int64_t label) {
    sum -= (weights ? weights[label] : 1.0f) * logProbabilities[row + label * f.pixels];
  });
  *loss = static_cast<float>(sum);
}

template <class Label>
void crossEntropy(const LabelledFields &f, const float *scores, const Label *labels,
                  const float *weights, float *loss) {
  double sum = 0;
  forEachLabel(f, labels, [&](int64_t row, int64_t label) {
    sum += (weights ? weights[label] : 1.0f) * rowLoss(f, scores, row, label);
  });
  *loss = static_cast<float>(sum);
}

template <class Label>
void crossEntropyGradient(const LabelledFields &f, float dy, const float *logProbabilities,
                          const Label *labels, const float *weights, float *dx) {
  std::fill_n(dx, f.samples * f.classes * f.pixels, 0.0f);
  forEachLabel(f, labels, [&](int64_t row, int64_t label) {
    const float factor = weights ? dy * weights[label] : dy;
    for (int64_t c = 0; c < f.classes; ++c) {
      const float probability = std::exp(logProbabilities[row + c * f.pixels]);
      dx[row + c * f.pixels] = factor * (probability - (c == label ? 1.0f : 0.0f));
    }
  });
}

template <class Label>
void likelihoodGradient(const LabelledFields &f, float dy, const Label *labels,
                        const float *weights, float *dx) {
  std::fill_n(dx, f.samples * f.classes * f.pixels, 0.0f);
  forEachLabel(f, labels, [&](int64_t row, int64_t label) {
    dx[row + label * f.pixels] = weights ? -dy * weights[label] : -dy;
  });
}

template <class Label>
void countCorrect(const LabelledFields &f, const float *scores, const Label *labels,
                  float *correct) {
  int64_t count = 0;
  forEachLabel(f, labels, [&](int64_t row, int64_t label) {
    int64_t best = 0;
    for (int64_t c = 1; c < f.classes; ++c)
      if (scores[row + c * f.pixels] > scores[row + best * f.pixels])
        best = c;
    count += best == label;
  });
  *correct = static_cast<float>(count);
}

} // namespace

#define PDC_LABELLED_KERNELS(Label)                                                                \
  void SoftmaxCrossEntropy::operator()(const Run &, const float *scores, const Label *labels,      \
                                       float *loss) const {                                        \
    crossEntropy(fields, scores, labels, nullptr, loss);                                           \
  }                                                                                                \
  void SoftmaxCrossEntropy::operator()(const Run &, const float *scores, const Label *labels,      \
                                       const float *weights, std::nullptr_t, float *loss) const {  \
    crossEntropy(fields, scores, labels, weights, loss);                                           \
  }                                                                                                \
  void SoftmaxCrossEntropy::operator()(const Run &run, const float *scores, const Label *labels,   \
                                       float *loss, float *logProbabilities) const {               \
    (*this)(run, scores, labels, nullptr, loss, logProbabilities);                                 \
  }                                                                                                \
  void SoftmaxCrossEntropy::operator()(const Run &, const float *scores, const Label *labels,      \
                                       const float *weights, float *loss, float *logProbabilities) \
      const {                                                                                      \
    logSoftmax(fields, scores, logProbabilities);                                                  \
    likelihood(fields, logProbabilities, labels, weights, loss);                                   \
  }                                                                                                \
  void SoftmaxCrossEntropyGradient::operator()(const Run &, const float *dy,                       \
                                               const float *logProbabilities, const Label *labels, \
                                               float *dx) const {                                  \
    crossEntropyGradient(fields, *dy, logProbabilities, labels, nullptr, dx);                      \
  }                                                                                                \
  void SoftmaxCrossEntropyGradient::operator()(const Run &, const float *dy,                       \
                                               const float *logProbabilities, const Label *labels, \
                                               const float *weights, float *dx) const {            \
    crossEntropyGradient(fields, *dy, logProbabilities, labels, weights, dx);                      \
  }                                                                                                \
  void NegativeLogLikelihood::operator()(const Run &, const float *logProbabilities,               \
                                         const Label *labels, float *loss) const {                 \
    likelihood(fields, logProbabilities, labels, nullptr, loss);                                   \
  }                                                                                                \
  void NegativeLogLikelihood::operator()(const Run &, const float *logProbabilities,               \
                                         const Label *labels, const float *weights, float *loss)   \
      const {                                                                                      \
    likelihood(fields, logProbabilities, labels, weights, loss);                                   \
  }                                                                                                \
  void NegativeLogLikelihoodGradient::operator()(const Run &, const float *dy,                     \
                                                 const Label *labels, float *dx) const {           \
    likelihoodGradient(fields, *dy, labels, nullptr, dx);                                          \
  }                                                                                                \
  void NegativeLogLikelihoodGradient::operator()(                                                  \
      const Run &, const float *dy, const Label *labels, const float *weights, float *dx) const {  \
    likelihoodGradient(fields, *dy, labels, weights, dx);                                          \
  }                                                                                                \
  void CorrectPredictions::operator()(const Run &, const float *scores, const Label *labels,       \
                                      float *correct) const {                                      \
    countCorrect(fields, scores, labels, correct);                                                 \
  }

PDC_LABELLED_KERNELS(int64_t)
PDC_LABELLED_KERNELS(int32_t)
#undef PDC_LABELLED_KERNELS

} // namespace pdc::runtime
