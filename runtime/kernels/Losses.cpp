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

/// Where what belongs to a label begins: its row of scores, and its row's scales.
struct LabelPlace {
  int64_t scores, scales;
  LabelPlace(const LabelledFields &f, int64_t label)
      : scores(label / f.pixels * f.classes * f.pixels + label % f.pixels),
        scales(label / f.pixels * 2 * f.pixels + label % f.pixels) {}
};

/// Calls visit(place, label) for the labels that count, in order.
template <class Label, class Visit>
void forEachLabel(const LabelledFields &f, const Label *labels, Visit visit) {
  for (int64_t i = 0; i < f.samples * f.pixels; ++i) {
    const int64_t label = static_cast<int64_t>(labels[i]);
    if (f.ignores && label == f.ignoreIndex)
      continue;
    if (label < 0 || label >= f.classes)
      throw DataError(i, f.samples * f.pixels, label, "0 to " + std::to_string(f.classes - 1),
                      "correct the file, or the ignored label of the model");
    visit(LabelPlace(f, i), label);
  }
}

/// The number of the label that belongs to a block's first row.
int64_t labelOfBlock(const LabelledFields &f, int64_t block) {
  return block / (f.classes * f.pixels) * f.pixels + block % (f.classes * f.pixels);
}

/// *loss = -sum of weight * logProbability(place, label).
template <class Label, class LogProbability>
void sumLosses(const LabelledFields &f, const Label *labels, const float *weights, float *loss,
               LogProbability logProbability) {
  double sum = 0;
  forEachLabel(f, labels, [&](LabelPlace place, int64_t label) {
    sum -= (weights ? weights[label] : 1.0f) * logProbability(place, label);
  });
  *loss = static_cast<float>(sum);
}

template <class Label>
void likelihood(const LabelledFields &f, const float *logProbabilities, const Label *labels,
                const float *weights, float *loss) {
  sumLosses(f, labels, weights, loss, [&](LabelPlace place, int64_t label) {
    return logProbabilities[place.scores + label * f.pixels];
  });
}

/// The largest score first: large ones would swallow the logarithm.
float logProbabilityOf(float score, float most, float logarithm) {
  return (score - most) - logarithm;
}

void scaleRows(const LabelledFields &f, int threads, const float *scores, float *scales) {
  const SoftmaxFields rowsOf = scoreRows(f);
  softmax::forEachBlock(rowsOf, threads, [=](int64_t block, int64_t rows) {
    const softmax::RowScale scale(rowsOf, scores + block, rows);
    float *to = scales + LabelPlace(f, labelOfBlock(f, block)).scales;
    for (int64_t l = 0; l < (f.pixels == 1 ? 1 : rows); ++l) {
      to[l] = scale.most.lane[l];
      to[l + f.pixels] = std::log(scale.sum.lane[l]);
    }
  });
}

/// Where nobody keeps the rows' scales, those of labels that count alone.
template <class Label>
void crossEntropy(const LabelledFields &f, const float *scores, const Label *labels,
                  const float *weights, float *loss) {
  sumLosses(f, labels, weights, loss, [&](LabelPlace place, int64_t label) {
    const softmax::RowScale scale(scoreRows(f), scores + place.scores, 1);
    return logProbabilityOf(scores[place.scores + label * f.pixels], scale.most.lane[0],
                            std::log(scale.sum.lane[0]));
  });
}

/// Labels are checked before: nothing may be thrown by threads. dx may be the scores.
template <class Label>
void crossEntropyGradient(const LabelledFields &f, int threads, const float *scores,
                          const float *scales, const Label *labels, float dy, const float *weights,
                          float *dx) {
  forEachLabel(f, labels, [](LabelPlace, int64_t) {});
  const SoftmaxFields rowsOf = scoreRows(f);
  softmax::forEachBlock(rowsOf, threads, [=](int64_t block, int64_t rows) {
    const int64_t first = labelOfBlock(f, block);
    const Label *of = labels + first;
    const float *most = scales + LabelPlace(f, first).scales, *logarithm = most + f.pixels;
    const auto counts = [&](int64_t l) { return !f.ignores || of[l] != f.ignoreIndex; };
    const float *from = scores + block;
    float *to = dx + block;
    softmax::LaneValues factor(dy), ofLabel(0), largest(most[0]), shift(logarithm[0]);
    const int64_t labelled = f.pixels == 1 ? 1 : rows;
    for (int64_t l = 0; l < labelled; ++l) {
      largest.lane[l] = most[l], shift.lane[l] = logarithm[l];
      if (!counts(l))
        continue;
      if (weights)
        factor.lane[l] = dy * weights[of[l]];
      ofLabel.lane[l] = logProbabilityOf(from[l + of[l] * f.pixels], most[l], logarithm[l]);
    }
    if (f.pixels == 1)
      std::fill_n(factor.lane, softmax::kLanes, float(factor.lane[0]));
    softmax::forEachVector(rowsOf, rows, [&](int64_t at, auto lanes) {
#pragma omp simd
      for (int64_t l = 0; l < lanes; ++l)
        to[at + l] = factor.lane[l] *
                     exponential(logProbabilityOf(from[at + l], largest.lane[l], shift.lane[l]));
    });
    for (int64_t l = 0; l < labelled; ++l)
      if (counts(l)) {
        to[l + of[l] * f.pixels] = factor.lane[l] * (exponential(ofLabel.lane[l]) - 1);
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
  forEachLabel(f, labels, [&](LabelPlace place, int64_t label) {
    dx[place.scores + label * f.pixels] = weights ? -dy * weights[label] : -dy;
  });
}

template <class Label>
void countCorrect(const LabelledFields &f, const float *scores, const Label *labels,
                  float *correct) {
  int64_t count = 0;
  forEachLabel(f, labels, [&](LabelPlace place, int64_t label) {
    const float *row = scores + place.scores;
    int64_t best = 0;
    for (int64_t c = 1; c < f.classes; ++c)
      if (row[c * f.pixels] > row[best * f.pixels])
        best = c;
    count += best == label;
  });
  *correct = static_cast<float>(count);
}

} // namespace

template <class Label>
void SoftmaxCrossEntropy::call(const Run &run, const float *scores, const Label *labels,
                               const float *weights, const CrossEntropyResults &results) const {
  if (results.logProbabilities)
    logSoftmax(run, scores, results.logProbabilities);
  if (results.scales)
    scaleRows(fields, threads, scores, results.scales);
  if (!results.loss)
    return;
  if (!results.scales)
    return crossEntropy(fields, scores, labels, weights, results.loss);
  sumLosses(fields, labels, weights, results.loss, [&](LabelPlace place, int64_t label) {
    const float *scale = results.scales + place.scales;
    return logProbabilityOf(scores[place.scores + label * fields.pixels], scale[0],
                            scale[fields.pixels]);
  });
}

template <class Label>
void SoftmaxCrossEntropyGradient::operator()(const Run &, const float *scores, const float *scales,
                                             const Label *labels, const float *dy,
                                             const float *weights, float *dx) const {
  crossEntropyGradient(fields, threads, scores, scales, labels, *dy, weights, dx);
}

#define PDC_LABELLED_KERNELS(Label)                                                                \
  template void SoftmaxCrossEntropy::call(const Run &, const float *, const Label *,               \
                                          const float *, const CrossEntropyResults &) const;       \
  template void SoftmaxCrossEntropyGradient::operator()(const Run &, const float *, const float *, \
                                                        const Label *, const float *,              \
                                                        const float *, float *) const;             \
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
