#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Team.h"
#include "runtime/cuda/Workspace.h"

#include "runtime/Error.h"

#include <cmath>
#include <limits>
#include <string_view>

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

/// Scores that a thread reads before it uses them: a store would hold up the loads behind it.
constexpr int kReadTogether = 4;

/// Calls use(class, read(class)) for each of a thread's classes.
template <int Threads, class Read, class Use>
__device__ void overClasses(int64_t classes, Read read, Use use) {
  for (int64_t c = Team<Threads>::thread(); c < classes; c += Threads * kReadTogether) {
    float values[kReadTogether] = {};
    for (int s = 0; s < kReadTogether; ++s)
      if (c + s * Threads < classes)
        values[s] = read(c + s * Threads);
    for (int s = 0; s < kReadTogether; ++s)
      if (c + s * Threads < classes)
        use(c + s * Threads, values[s]);
  }
}

/// The largest of the scores that a thread has seen, and the sum of exponentials relative to it.
struct Growing {
  float most = -std::numeric_limits<float>::infinity(), sum = 0;
  __device__ void add(float score) {
    if (score > most) {
      sum *= expf(most - score);
      most = score;
    }
    // Of scores that are masked, -infinity, the difference is none.
    sum += score == most ? 1.0f : expf(score - most);
  }
};

/// A team per row: the losses of rows, and what else of them somebody keeps.
template <int Threads, class T, class Label>
__global__ void crossEntropyRows(LabelledFields f, const T *scores, const Label *labels,
                                 const float *weights, float *losses, float *logProbabilities,
                                 float *scales) {
  using Row = Team<Threads>;
  const int64_t row = Row::index();
  if (row >= rowsOf(f))
    return;
  const int64_t first = firstOf(f, row), firstScore = firstOf(f, row, f.pitch);
  auto scoreOf = [&](int64_t c) { return float(scores[firstScore + c * f.pixels]); };
  // 1. In one pass the largest score and the sum of exponentials relative to it.
  Growing seen;
  overClasses<Threads>(f.classes, scoreOf, [&](int64_t, float score) { seen.add(score); });
  const float most = Row::most(seen.most);
  // A thread may have seen no score.
  const float sum = Row::sum(seen.sum == 0 ? 0 : seen.sum * expf(seen.most - most));
  // 2. What is made of both.
  const RowScale scale{most, logf(sum)};
  if (Row::thread() == 0) {
    const Labelled found = labelOf(f, labels, row);
    const float score = found.counts && found.isClass ? scoreOf(found.label) : 0;
    losses[row] = lossOf(found, weights, scale.logProbability(score));
    if (scales) {
      float *to = scales + RowScale::placeOf(f, row);
      to[0] = scale.most, to[f.pixels] = scale.logarithm;
    }
  }
  if (logProbabilities)
    overClasses<Threads>(f.classes, scoreOf, [&](int64_t c, float score) {
      logProbabilities[first + c * f.pixels] = scale.logProbability(score);
    });
}

/// A team per row: a division for each element would take longer than its memory. Each thread reads
/// a score before it writes the gradient of it, which may take its place.
template <int Threads, class T, class Label, class Gradient>
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
  const int64_t from = firstOf(f, row, f.pitch), to = firstOf(f, row, f.gradientPitch);
  overClasses<Threads>(
      f.classes, [&](int64_t c) { return float(scores[from + c * f.pixels]); },
      [&](int64_t c, float score) {
        const float hit = c == found.label ? 1.0f : 0.0f;
        const float probability = expf(scale.logProbability(score));
        dx[to + c * f.pixels] = Gradient(counts ? factor * (probability - hit) : 0.0f);
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

/// The first of equal scores wins.
template <class T, class Label> struct IsCorrect {
  LabelledFields f;
  const T *scores;
  const Label *labels;
  __device__ double operator()(int64_t row) const {
    const Labelled found = labelOf(f, labels, row);
    const int64_t first = firstOf(f, row, f.pitch);
    float most = float(scores[first]);
    int64_t best = 0;
    for (int64_t c = 1; c < f.classes; ++c)
      if (const float score = float(scores[first + c * f.pixels]); score > most)
        best = c, most = score;
    return found.counts && best == found.label ? 1 : 0;
  }
};

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

struct Squared {
  static PDC_EITHER double loss(double x, double t) { return (x - t) * (x - t); }
  static PDC_EITHER float gradient(float x, float t) { return 2 * (x - t); }
};
struct Absolute {
  static PDC_EITHER double loss(double x, double t) { return fabs(x - t); }
  static PDC_EITHER float gradient(float x, float t) { return x > t ? 1.0f : x < t ? -1.0f : 0.0f; }
};
/// -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)) without overflow.
struct BinaryCrossEntropy {
  static PDC_EITHER double loss(double x, double t) {
    return fmax(x, 0.0) - x * t + log1p(exp(-fabs(x)));
  }
  static PDC_EITHER float gradient(float x, float t) { return 1 / (1 + expf(-x)) - t; }
};

template <class Pair> struct LossOfPair {
  const float *prediction, *target;
  __device__ double operator()(int64_t i) const { return Pair::loss(prediction[i], target[i]); }
};

template <class Pair>
__global__ void pairGradientKernel(int64_t count, const float *prediction, const float *target,
                                   const float *dy, float *dx) {
  const int64_t i = globalThread();
  if (i < count)
    dx[i] = *dy * Pair::gradient(prediction[i], target[i]);
}

/// *total = the sum of value(i), in f64 and in fixed order. Long sums take two stages over
/// kPartialSums numbers at `workspace`.
template <class Value>
void sumAll(const Run &run, int64_t count, Value value, float *total, std::byte *workspace) {
  if (count <= 16 * kBlockThreads)
    return launch(run, 1, kBlockThreads, sumKernel<Value>, count, value, total);
  double *parts = reinterpret_cast<double *>(workspace);
  launch(run, kPartialSums, kBlockThreads, sumParts<Value>, count, value, parts);
  launch(run, 1, kBlockThreads, sumKernel<Loaded>, kPartialSums, Loaded{parts}, total);
}

template <class Choose> void chooseKind(const char *kind, Choose choose) {
  std::string_view name = kind;
  if (name == "MeanSquaredError")
    choose(Squared());
  else if (name == "MeanAbsoluteError")
    choose(Absolute());
  else if (name == "BinaryCrossEntropyWithLogits")
    choose(BinaryCrossEntropy());
  else
    throw Error("no kernel for loss '", name, "'");
}

} // namespace

/// Workspace: partial sums, then one loss per row.
template <class T, class Label>
void SoftmaxCrossEntropy::call(const Run &run, const T *scores, const Label *labels,
                               const float *weights, const CrossEntropyResults &results) const {
  const int64_t rows = rowsOf(fields);
  float *losses = reinterpret_cast<float *>(run.scratchBase + kPartialSums * sizeof(double));
  const TeamShape teams = TeamShape::of(rows, fields.classes, fields.pixels);
  teams.choose([&]<int Threads>(std::integral_constant<int, Threads>) {
    launch(run, teams.blocks, kBlockThreads, crossEntropyRows<Threads, T, Label>, fields, scores,
           labels, weights, losses, results.logProbabilities, results.scales);
  });
  if (results.loss)
    sumAll(run, rows, RowLoss{losses}, results.loss, run.scratchBase);
}

template <class T, class Label, class Gradient>
void SoftmaxCrossEntropyGradient::operator()(const Run &run, const T *scores, const float *scales,
                                             const Label *labels, const float *dy,
                                             const float *weights, Gradient *dx) const {
  const TeamShape teams = TeamShape::of(rowsOf(fields), fields.classes, fields.pixels);
  teams.choose([&]<int Threads>(std::integral_constant<int, Threads>) {
    launch(run, teams.blocks, kBlockThreads, crossEntropyGradientRows<Threads, T, Label, Gradient>,
           fields, scores, scales, labels, dy, weights, dx);
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
  sumAll(run, rowsOf(fields), IsCorrect<T, Label>{fields, scores, labels}, correct,
         run.scratchBase);
}

template <class Label>
void LossWeight::operator()(const Run &run, const Label *labels, const float *weights,
                            float *weight) const {
  sumAll(run, fields.count, WeightOf<Label>{fields, labels, weights}, weight, run.scratchBase);
}

void PairLoss::operator()(const Run &run, const float *prediction, const float *target,
                          float *loss) const {
  chooseKind(fields.kind, [&]<class Pair>(Pair) {
    sumAll(run, fields.count, LossOfPair<Pair>{prediction, target}, loss, run.scratchBase);
  });
}

void PairLossGradient::operator()(const Run &run, const float *prediction, const float *target,
                                  const float *dy, float *dx) const {
  chooseKind(fields.kind, [&]<class Pair>(Pair) {
    launchOver(run, fields.count, pairGradientKernel<Pair>, fields.count, prediction, target, dy,
               dx);
  });
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
