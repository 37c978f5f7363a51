#include "runtime/cuda/Channels.h"
#include "runtime/cuda/Columns.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Normalisation.h"
#include "runtime/cuda/Team.h"

#include <cmath>

namespace pdc::runtime::cuda {

namespace {

/// Deviations from the channel's first element, which keep digits that plain squares lose.
template <class T> struct ShiftedMoments {
  const T *x;
  int64_t columns;
  template <int Width> __device__ Sums<2, Width> at(int64_t row, int64_t column) const {
    const auto value = load<Width>(x + row * columns + column), first = load<Width>(x + column);
    Sums<2, Width> sums;
    for (int lane = 0; lane < Width; ++lane) {
      const float d = value.at[lane] - first.at[lane];
      sums.at[0].at[lane] = d, sums.at[1].at[lane] = d * d;
    }
    return sums;
  }
};

/// What becomes of a channel's mean and variance.
struct KeptStatistics {
  ChannelNumbers numbers;
  double epsilon;
  float kept, fresh;

  KeptStatistics(const BatchNormalizationFields &f, const ChannelNumbers &numbers)
      : numbers(numbers), epsilon(f.epsilon), kept(static_cast<float>(f.momentum)),
        fresh(static_cast<float>(1 - f.momentum)) {}
  __device__ void keep(int64_t c, float center, double spread) const {
    const float population = static_cast<float>(spread > 0 ? spread : 0);
    numbers.savedMean[c] = center;
    numbers.savedInverse[c] =
        static_cast<float>(1 / sqrt(static_cast<double>(population) + epsilon));
    if (numbers.newMean)
      numbers.newMean[c] = kept * numbers.mean[c] + fresh * center;
    if (numbers.newVariance)
      numbers.newVariance[c] = kept * numbers.variance[c] + fresh * population;
  }
};

template <class T> struct FinishStatistics {
  const T *x;
  double rows;
  KeptStatistics statistics;

  __device__ void operator()(int64_t c, const double *sums) const {
    const double shift = sums[0] / rows;
    statistics.keep(c, static_cast<float>(float(x[c]) + shift), sums[1] / rows - shift * shift);
  }
};

/// A mean of so many deviations, squared.
inline constexpr double kMostCancelled = 16;

/// Where a library has summed plain squares in f32, which cancel: one sum of 2^20 of them gives a
/// variance that is off by 0.15 % where the mean is four deviations from zero, by 0.5 % at ten and
/// by 28 times itself at a hundred; sums of tiles of 128 are off by 0.01, 0.02 and 1 % (drawn
/// normally, rounded to 16 bits). The block of a channel beyond four reads the image again.
template <class T>
__global__ void finishSums(const T *x, int64_t rows, int64_t channels, const float *sums,
                           const float *squares, KeptStatistics statistics) {
  using Block = Team<kBlockThreads>;
  const int64_t c = Block::index();
  double mean = sums[c] / double(rows), spread = squares[c] / double(rows) - mean * mean;
  if (!(mean * mean <= kMostCancelled * spread)) {
    const float first = float(x[c]);
    double ofShifted = 0, ofSquares = 0;
    for (int64_t row = Block::thread(); row < rows; row += kBlockThreads) {
      const double d = float(x[row * channels + c]) - first;
      ofShifted += d, ofSquares += d * d;
    }
    const double shift = Block::sum(ofShifted) / double(rows);
    mean = first + shift, spread = Block::sum(ofSquares) / double(rows) - shift * shift;
  }
  if (Block::thread() == 0)
    statistics.keep(c, static_cast<float>(mean), spread);
}

/// An image by the statistics of its channels.
template <class T> struct Normalised {
  const T *x;
  const float *scale, *bias, *mean, *inverse;
  template <int Width> __device__ Lanes<float, Width> at(int64_t i, int64_t c) const {
    auto value = load<Width>(x + i);
    const auto s = load<Width>(scale + c), b = load<Width>(bias + c), m = load<Width>(mean + c),
               r = load<Width>(inverse + c);
    for (int lane = 0; lane < Width; ++lane)
      value.at[lane] = (value.at[lane] - m.at[lane]) * (r.at[lane] * s.at[lane]) + b.at[lane];
    return value;
  }
};

/// The same by a running variance.
template <class T> struct NormalisedByVariance {
  const T *x;
  const float *scale, *bias, *mean, *variance;
  double epsilon;
  template <int Width> __device__ Lanes<float, Width> at(int64_t i, int64_t c) const {
    auto value = load<Width>(x + i);
    const auto s = load<Width>(scale + c), b = load<Width>(bias + c), m = load<Width>(mean + c),
               v = load<Width>(variance + c);
    for (int lane = 0; lane < Width; ++lane) {
      const auto inverse = static_cast<float>(1 / sqrt(static_cast<double>(v.at[lane]) + epsilon));
      value.at[lane] = (value.at[lane] - m.at[lane]) * (inverse * s.at[lane]) + b.at[lane];
    }
    return value;
  }
};

/// What is written of a normalised image, in one pass over memory.
template <class T, class Image> struct Finished {
  Image normalised;
  const T *addend; ///< null: there is none
  bool relu;
  T *to;
  template <int Width> __device__ Lanes<float, Width> at(int64_t i, int64_t c) const {
    auto value = normalised.template at<Width>(i, c);
    if (addend)
      value = value + load<Width>(addend + i);
    for (int lane = 0; lane < Width; ++lane)
      value.at[lane] = relu && !(value.at[lane] > 0) ? 0 : value.at[lane];
    return value;
  }
};

/// What arrives at a normalised image: the sum of some gradients, in 16 bits where they are, as far
/// as a relu lets it through. It passes where its result `y` does or, where `bias` is given, where
/// the image is positive that is normalised again.
template <class T> struct Arriving {
  const T *terms[BatchNormalizationFields::kMostTerms] = {};
  int count = 0;
  const T *y = nullptr;
  Normalised<T> image;

  template <int Width> __device__ Lanes<float, Width> at(int64_t i, int64_t c) const {
    auto sum = load<Width>(terms[0] + i);
    PDC_UNROLL
    for (int term = 1; term < BatchNormalizationFields::kMostTerms; ++term)
      if (term < count)
        sum = sum + load<Width>(terms[term] + i);
    if (y)
      passWhere(load<Width>(y + i), sum);
    else if (image.bias)
      passWhere(image.template at<Width>(i, c), sum);
    for (int lane = 0; lane < Width; ++lane)
      sum.at[lane] = static_cast<float>(static_cast<T>(sum.at[lane]));
    return sum;
  }

private:
  /// As stored: what 16 bits round to zero is not positive.
  template <int Width>
  static __device__ void passWhere(const Lanes<float, Width> &result, Lanes<float, Width> &sum) {
    for (int lane = 0; lane < Width; ++lane)
      sum.at[lane] = static_cast<float>(static_cast<T>(result.at[lane])) > 0 ? sum.at[lane] : 0;
  }
};

/// Sums of what arrives, and of that times the normalised element.
template <class T> struct GradientMoments {
  Arriving<T> arriving;
  int64_t columns;
  T *kept; ///< where what arrives is written; null: nowhere

  template <int Width> __device__ Lanes<float, Width> normalised(int64_t i, int64_t c) const {
    auto value = load<Width>(arriving.image.x + i);
    const auto m = load<Width>(arriving.image.mean + c),
               r = load<Width>(arriving.image.inverse + c);
    for (int lane = 0; lane < Width; ++lane)
      value.at[lane] = (value.at[lane] - m.at[lane]) * r.at[lane];
    return value;
  }
  template <int Width> __device__ Sums<2, Width> at(int64_t row, int64_t c) const {
    const int64_t i = row * columns + c;
    Sums<2, Width> sums = {{arriving.template at<Width>(i, c), normalised<Width>(i, c)}};
    for (int lane = 0; lane < Width; ++lane)
      sums.at[1].at[lane] *= sums.at[0].at[lane];
    return sums;
  }
  template <int Width>
  __device__ void keep(int64_t row, int64_t c, const Sums<2, Width> &sums) const {
    if (kept)
      store(kept + row * columns + c, sums.at[0]);
  }
};

struct FinishGradient {
  float rows;
  float *biasMean, *scaleMean; ///< a division for each channel, not for each element
  float *dscale, *dbias;
  __device__ void operator()(int64_t c, const double *sums) const {
    const float biasSum = static_cast<float>(sums[0]), scaleSum = static_cast<float>(sums[1]);
    biasMean[c] = biasSum / rows;
    scaleMean[c] = scaleSum / rows;
    if (dbias)
      dbias[c] = biasSum;
    if (dscale)
      dscale[c] = scaleSum;
  }
};

template <class T> struct InputGradient {
  GradientMoments<T> moments;
  const float *biasMean, *scaleMean;
  T *to;
  template <int Width> __device__ Lanes<float, Width> at(int64_t i, int64_t c) const {
    auto g = moments.arriving.template at<Width>(i, c);
    const auto h = moments.template normalised<Width>(i, c);
    const auto s = load<Width>(moments.arriving.image.scale + c),
               r = load<Width>(moments.arriving.image.inverse + c),
               ofBias = load<Width>(biasMean + c), ofScale = load<Width>(scaleMean + c);
    for (int lane = 0; lane < Width; ++lane) {
      const float centred = g.at[lane] - ofBias.at[lane] - h.at[lane] * ofScale.at[lane];
      g.at[lane] = s.at[lane] * r.at[lane] * centred;
    }
    return g;
  }
};

/// Workspace behind the sums over columns, one number per channel each.
float *behindSums(const Run &run, const Channels &shape, int64_t index) {
  return reinterpret_cast<float *>(run.scratchBase) +
         columnSumBytes(shape.rows, shape.columns, 2) / 4 + index * shape.columns;
}

} // namespace

template <class T>
void findStatistics(const Run &run, const BatchNormalizationFields &fields, const T *x,
                    const ChannelNumbers &numbers) {
  const Channels shape(fields.input);
  sumColumns<2>(run, shape.rows, shape.columns, ShiftedMoments<T>{x, shape.columns},
                FinishStatistics<T>{x, static_cast<double>(shape.rows), {fields, numbers}});
}

template <class T>
void finishStatistics(const Run &run, const BatchNormalizationFields &fields, const T *x,
                      const float *sums, const float *squares, const ChannelNumbers &numbers) {
  const Channels shape(fields.input);
  launch(run, shape.columns, kBlockThreads, finishSums<T>, x, shape.rows, shape.columns, sums,
         squares, KeptStatistics(fields, numbers));
}

template <class T>
void normalise(const Run &run, const BatchNormalizationFields &fields, const T *x,
               const ChannelNumbers &numbers, const T *addend, T *y) {
  if (y)
    overChannels(run, Channels(fields.input),
                 Finished<T, Normalised<T>>{
                     {x, numbers.scale, numbers.bias, numbers.savedMean, numbers.savedInverse},
                     addend,
                     fields.relu != 0,
                     y});
}

template <class T>
void BatchNormalization::call(const Run &run, std::initializer_list<const void *> all) const {
  const NormalisationPointers<5> p(fields, 5 + size_t(fields.addend), all);
  const T *x = p.image<T>(0);
  const ChannelNumbers numbers = channelNumbers(run, fields, p, 1);
  findStatistics(run, fields, x, numbers);
  normalise(run, fields, x, numbers, fields.addend ? p.image<T>(5) : nullptr,
            static_cast<T *>(p.outputs[0]));
}

template <class T>
void BatchNormalizationInference::operator()(const Run &run, const T *x, const float *scale,
                                             const float *bias, const float *mean,
                                             const float *variance, T *y) const {
  (*this)(run, x, scale, bias, mean, variance, static_cast<const T *>(nullptr), y);
}

template <class T>
void BatchNormalizationInference::operator()(const Run &run, const T *x, const float *scale,
                                             const float *bias, const float *mean,
                                             const float *variance, const T *addend, T *y) const {
  overChannels(run, Channels(fields.input),
               Finished<T, NormalisedByVariance<T>>{
                   {x, scale, bias, mean, variance, fields.epsilon}, addend, fields.relu != 0, y});
}

/// The terms, y or nothing, x, scale, the bias or nothing, mean and inverse.
template <class T>
static Arriving<T> arrivingOf(const BatchNormalizationFields &fields,
                              const NormalisationPointers<4> &p) {
  Arriving<T> arriving;
  size_t next = 0;
  for (int64_t term = 0; term < fields.terms; ++term)
    arriving.terms[arriving.count++] = p.image<T>(next++);
  if (fields.relu && !fields.reluOfImage)
    arriving.y = p.image<T>(next++);
  Normalised<T> &image = arriving.image;
  image.x = p.image<T>(next++);
  image.scale = p.input(next++);
  image.bias = fields.reluOfImage ? p.input(next++) : nullptr;
  image.mean = p.input(next++);
  image.inverse = p.input(next);
  return arriving;
}

/// Where several images make what arrives, or others want it, it is written while it is summed: the
/// input's gradient, in whose place it may lie, then reads one image for it. It may take the place
/// of a term, though not of one that is x or y as well: assign-homes shares no operand that occurs
/// twice.
template <class T>
void BatchNormalizationGradient::call(const Run &run,
                                      std::initializer_list<const void *> all) const {
  if (fields.terms < 1 || fields.terms > fields.kMostTerms)
    throw Error("batch normalization: a gradient of ", fields.terms, " terms, expected 1 to ",
                int64_t(fields.kMostTerms));
  const Channels shape(fields.input);
  const NormalisationPointers<4> p(fields, size_t(fields.terms + 4 + (fields.relu != 0)), all);
  T *dx = static_cast<T *>(p.outputs[0]), *wanted = static_cast<T *>(p.outputs[3]);
  GradientMoments<T> moments{arrivingOf<T>(fields, p), shape.columns,
                             wanted || fields.terms == 1 ? wanted : dx};
  float *biasMean = behindSums(run, shape, 0), *scaleMean = behindSums(run, shape, 1);
  sumColumns<2>(run, shape.rows, shape.columns, moments,
                FinishGradient{static_cast<float>(shape.rows), biasMean, scaleMean, p.output(1),
                               p.output(2)});
  if (!dx)
    return;
  if (moments.kept) {
    const Normalised<T> &image = moments.arriving.image;
    moments.arriving = {{moments.kept}, 1, nullptr, image};
    moments.arriving.image.bias = nullptr;
  }
  overChannels(run, shape, InputGradient<T>{moments, biasMean, scaleMean, dx});
}

#define PDC_NORMALISE(T)                                                                           \
  template void findStatistics(const Run &, const BatchNormalizationFields &, const T *,           \
                               const ChannelNumbers &);                                            \
  template void normalise(const Run &, const BatchNormalizationFields &, const T *,                \
                          const ChannelNumbers &, const T *, T *);                                 \
  template void BatchNormalization::call<T>(const Run &, std::initializer_list<const void *>)      \
      const;                                                                                       \
  template void BatchNormalizationInference::operator()(const Run &, const T *, const float *,     \
                                                        const float *, const float *,              \
                                                        const float *, T *) const;                 \
  template void BatchNormalizationInference::operator()(const Run &, const T *, const float *,     \
                                                        const float *, const float *,              \
                                                        const float *, const T *, T *) const;      \
  template void BatchNormalizationGradient::call<T>(const Run &,                                   \
                                                    std::initializer_list<const void *>) const;
PDC_NORMALISE(float)
PDC_NORMALISE(BFloat16)
PDC_NORMALISE(Float16)
#undef PDC_NORMALISE
template void finishStatistics(const Run &, const BatchNormalizationFields &, const Float16 *,
                               const float *, const float *, const ChannelNumbers &);

} // namespace pdc::runtime::cuda
