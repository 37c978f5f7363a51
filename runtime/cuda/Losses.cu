#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Lanes.h"
#include "runtime/cuda/Totals.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace pdc::runtime::cuda {

namespace {

/// What a label says of its row.
struct Labelled {
  bool counts, isClass;
  int64_t label;
};

template <class Label>
PDC_EITHER Labelled labelOf(const LabelledFields &f, const Label *labels, int64_t row) {
  const int64_t label = static_cast<int64_t>(labels[row]);
  return {!(f.ignores && label == f.ignoreIndex), label >= 0 && label < f.classes, label};
}

PDC_EITHER int64_t rowsOf(const LabelledFields &f) { return f.samples * f.pixels; }

/// The first score of a row; its classes lie `pixels` apart. Rows of one pixel may be padded.
PDC_EITHER int64_t firstOf(const LabelledFields &f, int64_t row, int64_t pitch = 0) {
  return pitch ? row * pitch : row / f.pixels * f.classes * f.pixels + row % f.pixels;
}

/// Of a row: its largest score, and the logarithm of the sum of exponentials relative to it, which
/// stand in the scales' two planes.
struct RowScale {
  float most, logarithm;

  static PDC_EITHER int64_t placeOf(const LabelledFields &f, int64_t row) {
    return row / f.pixels * 2 * f.pixels + row % f.pixels;
  }
  /// The largest score first: large ones would swallow the logarithm.
  PDC_EITHER float logProbability(float score) const { return (score - most) - logarithm; }
};

/// The row's loss from the logarithm of its label's probability.
PDC_EITHER float lossOf(Labelled found, const float *weights, float logProbability) {
  if (!found.counts)
    return 0;
  if (!found.isClass)
    return std::numeric_limits<float>::quiet_NaN();
  return -(weights ? weights[found.label] : 1.0f) * logProbability;
}

/// Accesses of a thread that are under way before it uses one: a store would hold up the loads
/// behind it.
constexpr int kReadTogether = 4;

/// Calls use(class, scores of it and its neighbours, how many there are) for a thread's share of a
/// row. Several are read at once where they lie side by side; behind the last class, the row's
/// padding.
template <int Threads, int Width, class T, class Use>
__device__ void overClasses(const LabelledFields &f, const T *scores, Use use) {
  constexpr int kStep = Threads * Width;
  const int64_t apart = Width > 1 ? 1 : f.pixels;
  for (int64_t c = Team<Threads>::thread() * Width; c < f.classes; c += kReadTogether * kStep) {
    Packed<T, Width> read[kReadTogether];
    PDC_UNROLL
    for (int s = 0; s < kReadTogether; ++s) {
      const int64_t k = c + s * kStep;
      read[s] = fetch<Width>(scores + (k < f.classes ? k : c) * apart);
    }
    PDC_UNROLL
    for (int s = 0; s < kReadTogether; ++s)
      if (const int64_t k = c + s * kStep; k < f.classes)
        use(k, widened(read[s]), k + Width <= f.classes ? Width : int(f.classes - k));
  }
}

/// The largest of the scores that a thread has seen, and the sum of exponentials relative to it.
struct Growing {
  static constexpr float kNone = -std::numeric_limits<float>::infinity();
  float most = kNone, sum = 0;

  template <int Width> __device__ void add(Lanes<float, Width> scores, int count) {
    float largest = most;
    for (int lane = 0; lane < Width; ++lane) {
      scores.at[lane] = lane < count ? scores.at[lane] : kNone;
      largest = scores.at[lane] > largest ? scores.at[lane] : largest;
    }
    if (largest > most) {
      sum *= expf(most - largest);
      most = largest;
    }
    // Where all scores are masked, minus infinity, none adds anything.
    const float base = most == kNone ? 0 : most;
    for (int lane = 0; lane < Width; ++lane)
      sum += expf(scores.at[lane] - base);
  }
};

/// A team per row: the losses of rows, and what else of them somebody keeps.
template <int Threads, int Width, class T, class Label>
__global__ void crossEntropyRows(LabelledFields f, const T *scores, const Label *labels,
                                 const float *weights, float *losses, float *logProbabilities,
                                 float *scales) {
  using Row = Team<Threads>;
  using Scores = Lanes<float, Width>;
  const int64_t row = Row::index();
  if (row >= rowsOf(f))
    return;
  const int64_t first = firstOf(f, row);
  const T *of = scores + firstOf(f, row, f.pitch);
  // 1. In one pass the largest score and the sum of exponentials relative to it.
  Growing seen;
  overClasses<Threads, Width>(
      f, of, [&](int64_t, const Scores &read, int count) { seen.add(read, count); });
  const float most = Row::most(seen.most);
  // A thread may have seen no score.
  const float sum = Row::sum(seen.sum == 0 ? 0 : seen.sum * expf(seen.most - most));
  // 2. What is made of both.
  const RowScale scale{most, logf(sum)};
  if (Row::thread() == 0) {
    const Labelled found = labelOf(f, labels, row);
    const float score = found.counts && found.isClass ? float(of[found.label * f.pixels]) : 0;
    losses[row] = lossOf(found, weights, scale.logProbability(score));
    if (scales) {
      float *to = scales + RowScale::placeOf(f, row);
      to[0] = scale.most, to[f.pixels] = scale.logarithm;
    }
  }
  if (logProbabilities)
    overClasses<Threads, 1>(f, of, [&](int64_t c, const Lanes<float, 1> &read, int) {
      logProbabilities[first + c * f.pixels] = scale.logProbability(read.at[0]);
    });
}

/// A team per row: a division for each element would take longer than its memory. Each thread reads
/// a score before it writes the gradient of it, which may take its place.
template <int Threads, int Width, class T, class Label, class Gradient>
__global__ void crossEntropyGradientRows(LabelledFields f, const T *scores, const float *scales,
                                         const Label *labels, const float *dy, const float *weights,
                                         Gradient *dx) {
  using Row = Team<Threads>;
  const int64_t row = Row::index();
  if (row >= rowsOf(f))
    return;
  const Labelled found = labelOf(f, labels, row);
  const bool counts = found.counts && found.isClass;
  const float factor = !counts ? 0 : weights ? *dy * weights[found.label] : *dy;
  const float *of = scales + RowScale::placeOf(f, row);
  const RowScale scale{of[0], of[f.pixels]};
  Gradient *to = dx + firstOf(f, row, f.gradientPitch);
  const int64_t apart = Width > 1 ? 1 : f.pixels;
  auto write = [&](int64_t c, const Lanes<float, Width> &read, int count) {
    Lanes<float, Width> made;
    PDC_UNROLL
    for (int lane = 0; lane < Width; ++lane) {
      const float hit = c + lane == found.label ? 1.0f : 0.0f;
      const float probability = expf(scale.logProbability(read.at[lane]));
      made.at[lane] = counts ? factor * (probability - hit) : 0.0f;
    }
    if (Width > 1 && count == Width)
      return store(to + c, made);
    PDC_UNROLL
    for (int lane = 0; lane < Width; ++lane)
      if (lane < count)
        to[(c + lane) * apart] = Gradient(made.at[lane]);
  };
  overClasses<Threads, Width>(f, scores + firstOf(f, row, f.pitch), write);
}

/// start(Threads, Width) for the team of a row, whose threads read 16 bytes at a time where rows of
/// all pitches begin at multiples of them.
template <class T, class Start>
void forRows(const LabelledFields &f, std::initializer_list<int64_t> pitches, Start start) {
  constexpr int kWide = 16 / sizeof(T);
  bool isWide = f.pixels == 1;
  for (int64_t pitch : pitches)
    isWide = isWide && (pitch ? pitch : f.classes) % kWide == 0;
  const TeamShape teams = TeamShape::of(rowsOf(f), f.classes, f.pixels);
  teams.choose([&](auto threads) {
    if constexpr (threads() > 1)
      if (isWide)
        return start(teams.blocks, threads, std::integral_constant<int, kWide>());
    start(teams.blocks, threads, std::integral_constant<int, 1>());
  });
}

template <class Label>
__global__ void likelihoodGradientKernel(LabelledFields f, const float *dy, const Label *labels,
                                         const float *weights, float *dx) {
  const int64_t i = globalThread();
  if (i >= rowsOf(f) * f.classes)
    return;
  const int64_t c = i / f.pixels % f.classes;
  const int64_t row = i / (f.pixels * f.classes) * f.pixels + i % f.pixels;
  const Labelled found = labelOf(f, labels, row);
  const bool hit = found.counts && c == found.label;
  dx[i] = hit ? -*dy * (weights ? weights[c] : 1.0f) : 0.0f;
}

struct RowLoss {
  const float *losses;
  __device__ double operator()(int64_t row) const { return losses[row]; }
};

template <class Label> struct Likelihood {
  LabelledFields f;
  const float *logProbabilities;
  const Label *labels;
  const float *weights;
  __device__ double operator()(int64_t row) const {
    const Labelled found = labelOf(f, labels, row);
    const bool reads = found.counts && found.isClass;
    return lossOf(found, weights,
                  reads ? logProbabilities[firstOf(f, row) + found.label * f.pixels] : 0);
  }
};

struct Least {
  template <class T> PDC_EITHER T operator()(T a, T b) const { return a < b ? a : b; }
};

/// parts[b] = the rows of block b whose label has the largest score; the first of equal ones wins.
template <int Threads, int Width, class T, class Label>
__global__ void correctParts(LabelledFields f, const T *scores, const Label *labels,
                             double *parts) {
  using Row = Team<Threads>;
  double correct = 0;
  for (int64_t row = Row::index(); row < rowsOf(f);
       row += int64_t(gridDim.x) * (kBlockThreads / Threads)) {
    const T *of = scores + firstOf(f, row, f.pitch);
    float most = float(*of);
    int64_t best = 0;
    overClasses<Threads, Width>(f, of, [&](int64_t c, const Lanes<float, Width> &read, int count) {
      for (int lane = 0; lane < Width; ++lane)
        if (lane < count && read.at[lane] > most)
          best = c + lane, most = read.at[lane];
    });
    const float largest = Row::most(most);
    best = Row::reduce(most == largest ? best : f.classes, Least());
    const Labelled found = labelOf(f, labels, row);
    // Where the first score is no number, none is larger.
    if (Row::thread() == 0 && found.counts && best % f.classes == found.label)
      ++correct;
  }
  correct = Team<kBlockThreads>::sum(correct);
  if (threadIdx.x == 0)
    parts[blockIdx.x] = correct;
}

/// Labels outside the classes weigh nothing here; the loss refuses them.
template <class Label> struct WeightOf {
  LossWeightFields f;
  const Label *labels;
  const float *weights;
  __device__ double operator()(int64_t i) const {
    const int64_t label = static_cast<int64_t>(labels[i]);
    if (f.ignores && label == f.ignoreIndex)
      return 0;
    if (!weights)
      return 1;
    return label >= 0 && label < f.classes ? weights[label] : 0;
  }
};

} // namespace

/// Workspace: partial sums, then one loss per row.
template <class T, class Label>
void SoftmaxCrossEntropy::call(const Run &run, const T *scores, const Label *labels,
                               const float *weights, const CrossEntropyResults &results) const {
  const int64_t rows = rowsOf(fields);
  float *losses = reinterpret_cast<float *>(run.scratchBase + kPartialSums * sizeof(double));
  forRows<T>(fields, {fields.pitch}, [&](int64_t blocks, auto threads, auto width) {
    launch(run, blocks, kBlockThreads, crossEntropyRows<threads(), width(), T, Label>, fields,
           scores, labels, weights, losses, results.logProbabilities, results.scales);
  });
  if (results.loss)
    sumAll(run, rows, RowLoss{losses}, results.loss, run.scratchBase);
}

template <class T, class Label, class Gradient>
void SoftmaxCrossEntropyGradient::operator()(const Run &run, const T *scores, const float *scales,
                                             const Label *labels, const float *dy,
                                             const float *weights, Gradient *dx) const {
  forRows<T>(fields, {fields.pitch, fields.gradientPitch},
             [&](int64_t blocks, auto threads, auto width) {
               launch(run, blocks, kBlockThreads,
                      crossEntropyGradientRows<threads(), width(), T, Label, Gradient>, fields,
                      scores, scales, labels, dy, weights, dx);
             });
}

template <class Label>
void NegativeLogLikelihood::operator()(const Run &run, const float *logProbabilities,
                                       const Label *labels, const float *weights,
                                       float *loss) const {
  sumAll(run, rowsOf(fields), Likelihood<Label>{fields, logProbabilities, labels, weights}, loss,
         run.scratchBase);
}

template <class Label>
void NegativeLogLikelihoodGradient::operator()(const Run &run, const float *dy, const Label *labels,
                                               const float *weights, float *dx) const {
  launchOver(run, rowsOf(fields) * fields.classes, likelihoodGradientKernel<Label>, fields, dy,
             labels, weights, dx);
}

template <class T, class Label>
void CorrectPredictions::operator()(const Run &run, const T *scores, const Label *labels,
                                    float *correct) const {
  double *parts = reinterpret_cast<double *>(run.scratchBase);
  forRows<T>(fields, {fields.pitch}, [&](int64_t blocks, auto threads, auto width) {
    blocks = std::min(blocks, kPartialSums);
    launch(run, blocks, kBlockThreads, correctParts<threads(), width(), T, Label>, fields, scores,
           labels, parts);
    launch(run, 1, kBlockThreads, sumKernel<Loaded>, blocks, Loaded{parts}, correct);
  });
}

template <class Label>
void LossWeight::operator()(const Run &run, const Label *labels, const float *weights,
                            float *weight) const {
  sumAll(run, fields.count, WeightOf<Label>{fields, labels, weights}, weight, run.scratchBase);
}

#define PDC_GRADIENT(Label, T, Gradient)                                                           \
  template void SoftmaxCrossEntropyGradient::operator()(const Run &, const T *, const float *,     \
                                                        const Label *, const float *,              \
                                                        const float *, Gradient *) const;
#define PDC_SCORES(Label, T)                                                                       \
  template void SoftmaxCrossEntropy::call(const Run &, const T *, const Label *, const float *,    \
                                          const CrossEntropyResults &) const;                      \
  PDC_GRADIENT(Label, T, T)                                                                        \
  template void CorrectPredictions::operator()(const Run &, const T *, const Label *, float *)     \
      const;
#define PDC_LABELLED_KERNELS(Label)                                                                \
  PDC_SCORES(Label, float)                                                                         \
  PDC_SCORES(Label, BFloat16)                                                                      \
  PDC_SCORES(Label, Float16)                                                                       \
  PDC_GRADIENT(Label, float, BFloat16)                                                             \
  PDC_GRADIENT(Label, float, Float16)                                                              \
  PDC_GRADIENT(Label, BFloat16, float)                                                             \
  PDC_GRADIENT(Label, Float16, float)                                                              \
  template void NegativeLogLikelihood::operator()(const Run &, const float *, const Label *,       \
                                                  const float *, float *) const;                   \
  template void NegativeLogLikelihoodGradient::operator()(                                         \
      const Run &, const float *, const Label *, const float *, float *) const;                    \
  template void LossWeight::operator()(const Run &, const Label *, const float *, float *) const;
PDC_LABELLED_KERNELS(int64_t)
PDC_LABELLED_KERNELS(int32_t)
#undef PDC_LABELLED_KERNELS
#undef PDC_SCORES
#undef PDC_GRADIENT
/// Targets that are numbers, which all count.
template void LossWeight::operator()(const Run &, const float *, const float *, float *) const;

} // namespace pdc::runtime::cuda
