#include "runtime/Error.h"
#include "runtime/kernels/CorrectPredictions.h"
#include "runtime/kernels/NegativeLogLikelihood.h"
#include "runtime/kernels/NegativeLogLikelihoodGradient.h"
#include "runtime/kernels/SoftmaxCrossEntropy.h"
#include "runtime/kernels/SoftmaxCrossEntropyGradient.h"
#include "runtime/kernels/SoftmaxRows.h"

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

/// -log softmax(scores)[label] of one row, when nobody keeps the log probabilities.
float rowLoss(const LabelledFields &f, const float *scores, int64_t row, int64_t label) {
  const softmax::RowScale scale(scoreRows(f), scores + row, 1);
  return std::log(scale.sum.lane[0]) - (scores[row + label * f.pixels] - scale.most.lane[0]);
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

/// Labels are checked before: nothing may be thrown by threads.
template <class Label>
void crossEntropyGradient(const LabelledFields &f, int threads, float dy,
                          const float *logProbabilities, const Label *labels, const float *weights,
                          float *dx) {
  forEachLabel(f, labels, [](int64_t, int64_t) {});
  const SoftmaxFields rowsOf = scoreRows(f);
  softmax::forEachBlock(rowsOf, threads, [=](int64_t block, int64_t rows) {
    const int64_t sample = block / (f.classes * f.pixels);
    const Label *of = labels + sample * f.pixels + block % (f.classes * f.pixels);
    const auto counts = [&](int64_t l) { return !f.ignores || of[l] != f.ignoreIndex; };
    softmax::LaneValues factor(dy);
    for (int64_t l = 0; l < rows; ++l)
      if (counts(l) && weights)
        factor.lane[l] = dy * weights[of[l]];
    if (f.pixels == 1)
      std::fill_n(factor.lane, softmax::kLanes, float(factor.lane[0]));
    const float *from = logProbabilities + block;
    float *to = dx + block;
    softmax::forEachVector(rowsOf, rows, [&](int64_t at, auto lanes) {
#pragma omp simd
      for (int64_t l = 0; l < lanes; ++l)
        to[at + l] = factor.lane[l] * exponential(from[at + l]);
    });
    for (int64_t l = 0; l < rows; ++l)
      if (counts(l)) {
        const int64_t label = l + of[l] * f.pixels;
        to[label] = factor.lane[l] * (exponential(from[label]) - 1);
      } else {
        for (int64_t c = 0; c < f.classes; ++c)
          to[l + c * f.pixels] = 0;
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
  void SoftmaxCrossEntropy::operator()(const Run &run, const float *scores, const Label *labels,   \
                                       const float *weights, float *loss, float *logProbabilities) \
      const {                                                                                      \
    logSoftmax(run, scores, logProbabilities);                                                     \
    likelihood(fields, logProbabilities, labels, weights, loss);                                   \
  }                                                                                                \
  void SoftmaxCrossEntropyGradient::operator()(const Run &, const float *dy,                       \
                                               const float *logProbabilities, const Label *labels, \
                                               float *dx) const {                                  \
    crossEntropyGradient(fields, threads, *dy, logProbabilities, labels, nullptr, dx);             \
  }                                                                                                \
  void SoftmaxCrossEntropyGradient::operator()(const Run &, const float *dy,                       \
                                               const float *logProbabilities, const Label *labels, \
                                               const float *weights, float *dx) const {            \
    crossEntropyGradient(fields, threads, *dy, logProbabilities, labels, weights, dx);             \
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
