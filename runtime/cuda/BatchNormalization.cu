#include "runtime/cuda/Channels.h"
#include "runtime/cuda/Columns.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Normalisation.h"
#include "runtime/cuda/NormalisedImage.h"
#include "runtime/cuda/Team.h"

#include <cmath>

namespace pdc::runtime::cuda {

namespace {

/// Deviations from the channel's first element, which keep digits that plain squares lose.
template <class T> struct ShiftedMoments {
  const T *x;
  int64_t columns;
  template <int Width> __device__ Packed<T, Width> fetched(int64_t row, int64_t column) const {
    return fetch<Width>(x + row * columns + column);
  }
  template <int Width> __device__ Lanes<float, Width> numbers(int64_t column) const {
    return load<Width>(x + column);
  }
  template <int Width>
  __device__ Sums<2, Width> of(const Packed<T, Width> &row,
                               const Lanes<float, Width> &first) const {
    const auto value = widened(row);
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

/// An image by a running variance.
template <class T> struct NormalisedByVariance {
  const T *x;
  const float *scale, *bias, *mean, *variance;
  double epsilon;
  template <int Width> __device__ Normalising<Width> numbers(int64_t c) const {
    auto inverse = load<Width>(variance + c);
    for (int lane = 0; lane < Width; ++lane)
      inverse.at[lane] =
          static_cast<float>(1 / sqrt(static_cast<double>(inverse.at[lane]) + epsilon));
    return {load<Width>(mean + c), inverse * load<Width>(scale + c), load<Width>(bias + c)};
  }
};

/// What is written of a normalised image, in one pass over memory.
template <class T, class Image> struct Finished {
  Image normalised;
  const T *addend; ///< null: there is none
  bool relu;
  T *to;
  template <int Width> struct Fetched { Packed<T, Width> x, addend; };
  template <int Width> __device__ Fetched<Width> fetched(int64_t i) const {
    Fetched<Width> element = {fetch<Width>(normalised.x + i), {}};
    if (addend)
      element.addend = fetch<Width>(addend + i);
    return element;
  }
  template <int Width> __device__ Normalising<Width> numbers(int64_t c) const {
    return normalised.template numbers<Width>(c);
  }
  template <int Width>
  __device__ Lanes<float, Width> of(const Fetched<Width> &element,
                                    const Normalising<Width> &numbers) const {
    auto value = numbers(element.x);
    if (addend)
      value = value + widened(element.addend);
    for (int lane = 0; lane < Width; ++lane)
      value.at[lane] = relu && value.at[lane] < 0 ? 0 : value.at[lane];
    return value;
  }
};

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
  const NormalisationPointers<5> p(fields.results, 5 + size_t(fields.addend), all);
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
                                                        const float *, const T *, T *) const;
PDC_NORMALISE(float)
PDC_NORMALISE(BFloat16)
PDC_NORMALISE(Float16)
#undef PDC_NORMALISE
template void finishStatistics(const Run &, const BatchNormalizationFields &, const Float16 *,
                               const float *, const float *, const ChannelNumbers &);

} // namespace pdc::runtime::cuda
