#include "runtime/cuda/Channels.h"
#include "runtime/cuda/Columns.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/NormalisationPointers.h"
#include "runtime/cuda/NormalisedImage.h"
#include "runtime/cuda/Team.h"

#include <cmath>

namespace pdc::runtime::cuda {

namespace {

/// Which group the channels of a sample are of.
struct GroupPlaces {
  int64_t channels, pixels, groups;
  int width; ///< channels of a group

  GroupPlaces(const GroupNormalizationFields &f, const Channels &sample)
      : channels(sample.columns), pixels(sample.rows), groups(f.groups),
        width(static_cast<int>(channels / groups)) {}

  /// The groups of `Width` channels from c on, counted in the sample.
  template <int Width> __device__ Lanes<int, Width> of(int64_t c) const {
    Lanes<int, Width> places;
    int group = static_cast<int>(c) / width, left = width - static_cast<int>(c) % width;
    for (int lane = 0; lane < Width; ++lane) {
      places.at[lane] = group;
      if (--left == 0)
        ++group, left = width;
    }
    return places;
  }
  /// What there is one of per group of each sample, for each of the channels.
  template <int Width>
  __device__ Lanes<float, Width> pick(const float *all, int64_t sample, int64_t c) const {
    const Lanes<int, Width> places = of<Width>(c);
    Lanes<float, Width> values;
    for (int lane = 0; lane < Width; ++lane)
      values.at[lane] = all[sample * groups + places.at[lane]];
    return values;
  }
};

/// Deviations from the group's first element, which keep digits that plain squares lose.
template <class T> struct ShiftedMoments {
  const T *x;
  GroupPlaces places;

  template <int Width> __device__ Packed<T, Width> fetched(int64_t row, int64_t column) const {
    return fetch<Width>(x + row * places.channels + column);
  }
  template <int Width> __device__ Lanes<float, Width> numbers(int64_t sample, int64_t c) const {
    const Lanes<int, Width> group = places.template of<Width>(c);
    Lanes<float, Width> first;
    for (int lane = 0; lane < Width; ++lane)
      first.at[lane] = float(
          x[sample * places.pixels * places.channels + int64_t(group.at[lane]) * places.width]);
    return first;
  }
  template <int Width>
  __device__ Sums<2, Width> of(const Packed<T, Width> &row,
                               const Lanes<float, Width> &first) const {
    Sums<2, Width> sums = {{widened(row)}};
    for (int lane = 0; lane < Width; ++lane)
      sums.at[0].at[lane] -= first.at[lane];
    sums.at[1] = sums.at[0] * sums.at[0];
    return sums;
  }
};

/// finish(sample, group, the sums of what its channels have in all chunks), by a team per group:
/// two sums in f64, each channel's times what `scale` has of it (null: one).
template <int Threads, class Finish>
__global__ void sumGroups(GroupPlaces places, int64_t samples, int64_t chunks, const float *parts,
                          const float *scale, Finish finish) {
  using Group = Team<Threads>;
  const int64_t i = Group::index(), sample = i / places.groups, group = i % places.groups;
  if (sample >= samples)
    return;
  double sums[2] = {};
  for (int64_t k = Group::thread(); k < chunks * places.width; k += Threads) {
    const int64_t c = group * places.width + k % places.width;
    const float *const part =
        parts + (sample * chunks + k / places.width) * 2 * places.channels + c;
    const float factor = scale ? scale[c] : 1;
    sums[0] += factor * part[0];
    sums[1] += factor * part[places.channels];
  }
  for (double &sum : sums)
    sum = Group::sum(sum);
  if (Group::thread() == 0)
    finish(sample, i, group, sums);
}

template <class Finish>
void startGroups(const Run &run, const GroupPlaces &places, const RowChunks &in, const float *parts,
                 const float *scale, const Finish &finish) {
  const TeamShape teams = TeamShape::of(in.samples * places.groups, in.chunks * places.width);
  teams.choose([&](auto threads) {
    launch(run, teams.blocks, kBlockThreads, sumGroups<threads(), Finish>, places, in.samples,
           in.chunks, parts, scale, finish);
  });
}

template <class T> struct FinishStatistics {
  const T *x;
  GroupPlaces places;
  double epsilon;
  float *mean, *inverse;

  __device__ void operator()(int64_t sample, int64_t i, int64_t group, const double *sums) const {
    const double size = double(places.pixels) * places.width, shift = sums[0] / size;
    const double spread = sums[1] / size - shift * shift;
    const float first = float(x[sample * places.pixels * places.channels + group * places.width]);
    mean[i] = static_cast<float>(first + shift);
    inverse[i] = static_cast<float>(1 / sqrt((spread > 0 ? spread : 0) + epsilon));
  }
};

/// What a group is normalised with, and a channel scaled and shifted.
struct GroupNumbers {
  GroupPlaces places;
  const float *scale, *bias, *mean, *inverse;

  template <int Width> __device__ Lanes<float, Width> scaleOf(int64_t c) const {
    if (scale)
      return load<Width>(scale + c);
    Lanes<float, Width> ones;
    for (int lane = 0; lane < Width; ++lane)
      ones.at[lane] = 1;
    return ones;
  }
  template <int Width> __device__ Lanes<float, Width> biasOf(int64_t c) const {
    return bias ? load<Width>(bias + c) : Lanes<float, Width>{};
  }
  template <int Width> __device__ Normalising<Width> normalising(int64_t sample, int64_t c) const {
    return {places.pick<Width>(mean, sample, c),
            places.pick<Width>(inverse, sample, c) * scaleOf<Width>(c), biasOf<Width>(c)};
  }
};

__device__ inline float gateOf(float y) { return 1 / (1 + expf(-y)); }

template <class T, bool swish> struct Finished {
  const T *x;
  GroupNumbers image;
  T *to;

  template <int Width> __device__ Packed<T, Width> fetched(int64_t i) const {
    return fetch<Width>(x + i);
  }
  template <int Width> __device__ Normalising<Width> numbers(int64_t sample, int64_t c) const {
    return image.normalising<Width>(sample, c);
  }
  template <int Width>
  __device__ Lanes<float, Width> of(const Packed<T, Width> &element,
                                    const Normalising<Width> &numbers) const {
    auto value = numbers(element);
    if constexpr (swish)
      for (int lane = 0; lane < Width; ++lane)
        value.at[lane] *= gateOf(value.at[lane]);
    return value;
  }
};

/// What arrives at what is scaled and shifted, and that times the normalised element.
template <class T, bool swish> struct GradientMoments {
  const T *dy, *x;
  GroupNumbers image;

  template <int Width> struct Fetched { Packed<T, Width> dy, x; };
  template <int Width> struct Numbers { Lanes<float, Width> mean, inverse, scale, bias; };
  template <int Width> __device__ Fetched<Width> fetched(int64_t i) const {
    return {fetch<Width>(dy + i), fetch<Width>(x + i)};
  }
  template <int Width> __device__ Fetched<Width> fetched(int64_t row, int64_t c) const {
    return fetched<Width>(row * image.places.channels + c);
  }
  template <int Width> __device__ Numbers<Width> numbers(int64_t sample, int64_t c) const {
    return {image.places.pick<Width>(image.mean, sample, c),
            image.places.pick<Width>(image.inverse, sample, c), image.scaleOf<Width>(c),
            image.biasOf<Width>(c)};
  }
  /// What arrives and the normalised element.
  template <int Width>
  __device__ Sums<2, Width> both(const Fetched<Width> &element,
                                 const Numbers<Width> &numbers) const {
    Sums<2, Width> all = {{widened(element.dy), widened(element.x)}};
    for (int lane = 0; lane < Width; ++lane) {
      float &g = all.at[0].at[lane], &h = all.at[1].at[lane];
      h = (h - numbers.mean.at[lane]) * numbers.inverse.at[lane];
      if constexpr (swish) {
        const float y = h * numbers.scale.at[lane] + numbers.bias.at[lane], gate = gateOf(y);
        g *= gate * (1 + y * (1 - gate));
      }
    }
    return all;
  }
  template <int Width>
  __device__ Sums<2, Width> of(const Fetched<Width> &element, const Numbers<Width> &numbers) const {
    Sums<2, Width> sums = both(element, numbers);
    sums.at[1] = sums.at[0] * sums.at[1];
    return sums;
  }
};

struct StoreMeans {
  float size;
  float *gradient, *product;
  __device__ void operator()(int64_t, int64_t i, int64_t, const double *sums) const {
    gradient[i] = static_cast<float>(sums[0]) / size;
    product[i] = static_cast<float>(sums[1]) / size;
  }
};

struct StoreChannels {
  float *dscale, *dbias; ///< null where they are not wanted
  __device__ void operator()(int64_t c, const double *sums) const {
    if (dbias)
      dbias[c] = static_cast<float>(sums[0]);
    if (dscale)
      dscale[c] = static_cast<float>(sums[1]);
  }
};

/// With g what arrives times the scale and h the normalised element: inverse (g - mean(g) - h
/// mean(g h)), with means over a group.
template <class T, bool swish> struct InputGradient {
  using Moments = GradientMoments<T, swish>;
  Moments moments;
  const float *gradient, *product;
  T *to;

  template <int Width> struct Numbers {
    typename Moments::template Numbers<Width> image;
    Lanes<float, Width> ofGradient, ofProduct;
  };
  template <int Width> __device__ auto fetched(int64_t i) const {
    return moments.template fetched<Width>(i);
  }
  template <int Width> __device__ Numbers<Width> numbers(int64_t sample, int64_t c) const {
    const GroupPlaces &places = moments.image.places;
    return {moments.template numbers<Width>(sample, c), places.pick<Width>(gradient, sample, c),
            places.pick<Width>(product, sample, c)};
  }
  template <class Fetched, int Width>
  __device__ Lanes<float, Width> of(const Fetched &element, const Numbers<Width> &numbers) const {
    auto [g, h] = moments.both(element, numbers.image).at;
    for (int lane = 0; lane < Width; ++lane) {
      const float centred = g.at[lane] * numbers.image.scale.at[lane] -
                            numbers.ofGradient.at[lane] - h.at[lane] * numbers.ofProduct.at[lane];
      g.at[lane] = numbers.image.inverse.at[lane] * centred;
    }
    return g;
  }
};

/// One sample, as a matrix with a row per pixel.
Channels sampleOf(const GroupNormalizationFields &fields) {
  Dimensions shape = fields.input;
  shape[0] = 1;
  return Channels(shape);
}

/// start(whether there is a swish, as a type).
template <class Start> void forSwish(const GroupNormalizationFields &fields, Start start) {
  if (fields.swish)
    start(std::true_type());
  else
    start(std::false_type());
}

} // namespace

/// Statistics that nobody wants lie in the workspace behind the sums.
template <class T>
void GroupNormalization::call(const Run &run, std::initializer_list<const void *> all) const {
  const NormalisationPointers<3> p(fields.results, 3, all);
  const Channels sample = sampleOf(fields);
  const GroupPlaces places(fields, sample);
  const RowChunks in(sample.rows, sample.columns, fields.input[0]);
  const T *x = p.image<T>(0);
  const float *parts = sumChunksOfColumns<2>(run, in, sample.columns, ShiftedMoments<T>{x, places});
  float *behind = reinterpret_cast<float *>(run.scratchBase) + in.all() * 2 * sample.columns;
  float *mean = p.output(1) ? p.output(1) : behind;
  float *inverse = p.output(2) ? p.output(2) : behind + in.samples * places.groups;
  startGroups(run, places, in, parts, nullptr,
              FinishStatistics<T>{x, places, fields.epsilon, mean, inverse});
  if (!p.outputs[0])
    return;
  forSwish(fields, [&](auto swish) {
    overSamples(run, in.samples, sample,
                Finished<T, swish()>{x,
                                     {places, p.input(1), p.input(2), mean, inverse},
                                     static_cast<T *>(p.outputs[0])});
  });
}

template <class T>
void GroupNormalizationGradient::call(const Run &run,
                                      std::initializer_list<const void *> all) const {
  const NormalisationPointers<3> p(fields.results, 6, all);
  const Channels sample = sampleOf(fields);
  const GroupPlaces places(fields, sample);
  const RowChunks in(sample.rows, sample.columns, fields.input[0]);
  forSwish(fields, [&](auto swish) {
    const GradientMoments<T, swish()> moments = {
        p.image<T>(0), p.image<T>(1), {places, p.input(2), p.input(3), p.input(4), p.input(5)}};
    const float *parts = sumChunksOfColumns<2>(run, in, sample.columns, moments);
    if (p.output(1) || p.output(2))
      addChunks<2>(run, in, sample.columns, parts, StoreChannels{p.output(1), p.output(2)});
    if (!p.outputs[0])
      return;
    float *gradient = reinterpret_cast<float *>(run.scratchBase) + in.all() * 2 * sample.columns;
    float *product = gradient + in.samples * places.groups;
    const float size = static_cast<float>(places.pixels * places.width);
    startGroups(run, places, in, parts, p.input(2), StoreMeans{size, gradient, product});
    overSamples(
        run, in.samples, sample,
        InputGradient<T, swish()>{moments, gradient, product, static_cast<T *>(p.outputs[0])});
  });
}

#define PDC_GROUP_NORMALIZATION(T)                                                                 \
  template void GroupNormalization::call<T>(const Run &, std::initializer_list<const void *>)      \
      const;                                                                                       \
  template void GroupNormalizationGradient::call<T>(const Run &,                                   \
                                                    std::initializer_list<const void *>) const;
PDC_GROUP_NORMALIZATION(float)
PDC_GROUP_NORMALIZATION(BFloat16)
PDC_GROUP_NORMALIZATION(Float16)
#undef PDC_GROUP_NORMALIZATION

} // namespace pdc::runtime::cuda
