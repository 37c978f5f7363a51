#include "runtime/cuda/Channels.h"
#include "runtime/cuda/Columns.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Normalisation.h"
#include "runtime/cuda/NormalisedImage.h"

#include "runtime/Error.h"

#include <algorithm>
#include <type_traits>

namespace pdc::runtime::cuda {

namespace {

/// What a relu lets through: all, or what its result `y` does, or where the image is positive that
/// is normalised again.
enum class Passing { all, ofResult, ofImage };

/// What arrives at a normalised image: the sum of `Terms` gradients, in 16 bits where they are, as
/// far as a relu lets it through; and that times the normalised element.
template <class T, int Terms, Passing passing> struct GradientMoments {
  const T *terms[Terms];
  const T *y;
  Normalised<T> image;
  int64_t columns;
  T *kept; ///< where what arrives is written; null: nowhere

  template <int Width> struct Fetched { Packed<T, Width> terms[Terms], y, x; };
  template <int Width> struct Numbers {
    Lanes<float, Width> mean, inverse;
    Normalising<Width> image;
  };
  template <int Width> __device__ Fetched<Width> fetched(int64_t i) const {
    Fetched<Width> element = {};
    PDC_UNROLL
    for (int term = 0; term < Terms; ++term)
      element.terms[term] = fetch<Width>(terms[term] + i);
    element.x = fetch<Width>(image.x + i);
    if constexpr (passing == Passing::ofResult)
      element.y = fetch<Width>(y + i);
    return element;
  }
  template <int Width> __device__ Fetched<Width> fetched(int64_t row, int64_t c) const {
    return fetched<Width>(row * columns + c);
  }
  template <int Width> __device__ Numbers<Width> numbers(int64_t c) const {
    Numbers<Width> numbers = {load<Width>(image.mean + c), load<Width>(image.inverse + c), {}};
    if constexpr (passing == Passing::ofImage)
      numbers.image = image.template numbers<Width>(c);
    return numbers;
  }
  template <int Width>
  __device__ Lanes<float, Width> arriving(const Fetched<Width> &element,
                                          const Numbers<Width> &numbers) const {
    auto sum = widened(element.terms[0]);
    PDC_UNROLL
    for (int term = 1; term < Terms; ++term)
      sum = sum + widened(element.terms[term]);
    if constexpr (passing == Passing::ofResult)
      passWhere(widened(element.y), sum);
    else if constexpr (passing == Passing::ofImage)
      passWhere(numbers.image(element.x), sum);
    return widened(packed<T>(sum));
  }
  template <int Width>
  static __device__ Lanes<float, Width> normalised(const Packed<T, Width> &x,
                                                   const Numbers<Width> &numbers) {
    auto value = widened(x);
    for (int lane = 0; lane < Width; ++lane)
      value.at[lane] = (value.at[lane] - numbers.mean.at[lane]) * numbers.inverse.at[lane];
    return value;
  }
  template <int Width>
  __device__ Sums<2, Width> of(const Fetched<Width> &element, const Numbers<Width> &numbers) const {
    const auto sum = arriving(element, numbers);
    return {{sum, normalised(element.x, numbers) * sum}};
  }
  template <int Width>
  __device__ void keep(int64_t row, int64_t c, const Sums<2, Width> &sums) const {
    if (kept)
      store(kept + row * columns + c, sums.at[0]);
  }

private:
  /// As stored: what 16 bits round to zero is not positive.
  template <int Width>
  static __device__ void passWhere(const Lanes<float, Width> &result, Lanes<float, Width> &sum) {
    const auto made = widened(packed<T>(result));
    for (int lane = 0; lane < Width; ++lane)
      sum.at[lane] = made.at[lane] > 0 ? sum.at[lane] : 0;
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

template <class T, Passing passing> struct InputGradient {
  using Moments = GradientMoments<T, 1, passing>;
  Moments moments;
  const float *biasMean, *scaleMean;
  T *to;
  template <int Width> struct Numbers {
    typename Moments::template Numbers<Width> image;
    Lanes<float, Width> factor, ofBias, ofScale;
  };
  template <int Width> __device__ auto fetched(int64_t i) const {
    return moments.template fetched<Width>(i);
  }
  template <int Width> __device__ Numbers<Width> numbers(int64_t c) const {
    const auto image = moments.template numbers<Width>(c);
    return {image, load<Width>(moments.image.scale + c) * image.inverse, load<Width>(biasMean + c),
            load<Width>(scaleMean + c)};
  }
  template <class Fetched, int Width>
  __device__ Lanes<float, Width> of(const Fetched &element, const Numbers<Width> &numbers) const {
    auto g = moments.arriving(element, numbers.image);
    const auto h = moments.normalised(element.x, numbers.image);
    for (int lane = 0; lane < Width; ++lane) {
      const float centred =
          g.at[lane] - numbers.ofBias.at[lane] - h.at[lane] * numbers.ofScale.at[lane];
      g.at[lane] = numbers.factor.at[lane] * centred;
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

/// The terms, y or nothing, x, scale, the bias or nothing, mean and inverse.
template <class T> struct GradientInputs {
  const T *terms[BatchNormalizationFields::kMostTerms] = {};
  const T *y = nullptr;
  Normalised<T> image;

  GradientInputs(const BatchNormalizationFields &fields, const NormalisationPointers<4> &p) {
    size_t next = 0;
    for (int64_t term = 0; term < fields.terms; ++term)
      terms[term] = p.image<T>(next++);
    if (fields.relu && !fields.reluOfImage)
      y = p.image<T>(next++);
    image.x = p.image<T>(next++);
    image.scale = p.input(next++);
    image.bias = fields.reluOfImage ? p.input(next++) : nullptr;
    image.mean = p.input(next++);
    image.inverse = p.input(next);
  }
  template <int Terms, Passing passing>
  GradientMoments<T, Terms, passing> moments(const Channels &shape, T *kept) const {
    GradientMoments<T, Terms, passing> moments = {{}, y, image, shape.columns, kept};
    std::copy_n(terms, Terms, moments.terms);
    return moments;
  }
};

/// start(the number of terms, what passes, as types).
template <class Start> static void forTerms(int64_t terms, Passing passing, Start start) {
  auto with = [&]<int Terms>(std::integral_constant<int, Terms> count) {
    if (passing == Passing::all)
      start(count, std::integral_constant<Passing, Passing::all>());
    else if (passing == Passing::ofResult)
      start(count, std::integral_constant<Passing, Passing::ofResult>());
    else
      start(count, std::integral_constant<Passing, Passing::ofImage>());
  };
  static_assert(BatchNormalizationFields::kMostTerms == 4);
  if (terms == 1)
    with(std::integral_constant<int, 1>());
  else if (terms == 2)
    with(std::integral_constant<int, 2>());
  else if (terms == 3)
    with(std::integral_constant<int, 3>());
  else
    with(std::integral_constant<int, 4>());
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
  const NormalisationPointers<4> p(fields.results, size_t(fields.terms + 4 + (fields.relu != 0)),
                                   all);
  T *dx = static_cast<T *>(p.outputs[0]), *wanted = static_cast<T *>(p.outputs[3]);
  GradientInputs<T> inputs(fields, p);
  T *kept = wanted || fields.terms == 1 ? wanted : dx;
  float *biasMean = behindSums(run, shape, 0), *scaleMean = behindSums(run, shape, 1);
  const FinishGradient finish{static_cast<float>(shape.rows), biasMean, scaleMean, p.output(1),
                              p.output(2)};
  Passing passing = inputs.y            ? Passing::ofResult
                    : inputs.image.bias ? Passing::ofImage
                                        : Passing::all;
  forTerms(fields.terms, passing, [&](auto terms, auto passes) {
    sumColumns<2>(run, shape.rows, shape.columns,
                  inputs.template moments<terms(), passes()>(shape, kept), finish);
  });
  if (!dx)
    return;
  if (kept)
    inputs.terms[0] = kept, passing = Passing::all;
  forTerms(1, passing, [&](auto, auto passes) {
    overChannels(run, shape,
                 InputGradient<T, passes()>{inputs.template moments<1, passes()>(shape, nullptr),
                                            biasMean, scaleMean, dx});
  });
}

template void BatchNormalizationGradient::call<float>(const Run &,
                                                      std::initializer_list<const void *>) const;
template void BatchNormalizationGradient::call<BFloat16>(const Run &,
                                                         std::initializer_list<const void *>) const;
template void BatchNormalizationGradient::call<Float16>(const Run &,
                                                        std::initializer_list<const void *>) const;

} // namespace pdc::runtime::cuda
