#include "runtime/kernels/GroupNormalization.h"

#include "runtime/kernels/Exponential.h"
#include "runtime/kernels/GroupNormalizationGradient.h"
#include "runtime/kernels/LaneStatistics.h"

#include <cmath>
#include <numeric>

namespace pdc::runtime {

namespace {

/// Fewer elements are not worth waking threads for.
constexpr int64_t kParallelElements = 16384;

/// Vectors that are summed in f32.
constexpr int64_t kTogether = 128;

constexpr int kMostLanes = 16;

/// Vectors of `Lanes` elements, one behind the other: of as many neighbouring channels, of which
/// the first `there` exist, or of one channel's pixels.
template <int Count> struct Strip {
  static constexpr int L = Count;
  int64_t offset, vectors;
  int64_t channel; ///< of the first lane
  bool isOneChannel;
  int64_t there;
};

/// What one thread computes: whole groups of one sample, in whole vectors.
struct Share {
  int64_t sample, channel, channels; ///< the first, and how many
};

/// How groups lie in memory.
struct Groups : ChannelLayout {
  int64_t groups, width; ///< channels of a group
  int64_t shareChannels;

  Groups(const ChannelLayout &layout, int64_t count)
      : ChannelLayout(layout), groups(count), width(layout.channels / count),
        shareChannels(std::lcm(width, lanes > 1     ? lanes
                                      : pixels == 1 ? int64_t(kMostLanes)
                                                    : 1)) {}

  /// work(share) for every share, in parallel.
  template <class Work> void forEachShare(int threads, Work work) const {
    const int64_t perSample = (channels + shareChannels - 1) / shareChannels;
#pragma omp parallel for schedule(static) num_threads(threads) if (elements() >= kParallelElements)
    for (int64_t i = 0; i < batch * perSample; ++i) {
      const int64_t first = i % perSample * shareChannels;
      work(Share{i / perSample, first, std::min(shareChannels, channels - first)});
    }
  }

  /// use(strip) for all that a share has, by channels.
  template <class Use> void forEachStrip(const Share &share, Use use) const {
    const int64_t end = share.channel + share.channels;
    if (lanes == 16)
      return forEachBlock<16>(share, use);
    if (lanes == 8)
      return forEachBlock<8>(share, use);
    const int64_t sample = share.sample * channels;
    if (pixels > 1) {
      for (int64_t c = share.channel; c < end; ++c)
        forNeighbours((sample + c) * pixels, pixels, c, use);
      return;
    }
    int64_t c = share.channel;
    for (; c + kMostLanes <= end; c += kMostLanes)
      use(Strip<kMostLanes>{sample + c, 1, c, false, kMostLanes});
    for (; c < end; ++c)
      use(Strip<1>{sample + c, 1, c, true, 1});
  }

  /// The same, where it is enough to know the group of an element: row-major groups are neighbours.
  template <class Use> void forEachRun(const Share &share, Use use) const {
    if (lanes > 1)
      return forEachStrip(share, use);
    for (int64_t c = share.channel; c < share.channel + share.channels; c += width)
      forNeighbours((share.sample * channels + c) * pixels, width * pixels, c, use);
  }

private:
  template <int L, class Use> void forEachBlock(const Share &share, Use use) const {
    for (int64_t c = share.channel; c < share.channel + share.channels; c += L)
      use(Strip<L>{(share.sample * blocks() * L + c) * pixels, pixels, c, false,
                   std::min<int64_t>(L, channels - c)});
  }
  template <class Use>
  static void forNeighbours(int64_t offset, int64_t count, int64_t channel, Use use) {
    const int64_t whole = count / kMostLanes;
    if (whole > 0)
      use(Strip<kMostLanes>{offset, whole, channel, true, kMostLanes});
    if (whole * kMostLanes < count)
      use(Strip<1>{offset + whole * kMostLanes, count - whole * kMostLanes, channel, true, 1});
  }
};

/// use(lane, its channel, its group in the share) for the lanes that are there.
template <class Strip, class Use>
void forLanes(const Groups &shape, const Share &share, const Strip &strip, Use use) {
  int64_t group = (strip.channel - share.channel) / shape.width;
  int64_t left = shape.width - (strip.channel - share.channel) % shape.width;
  int64_t channel = strip.channel;
  for (int lane = 0; lane < strip.there; ++lane) {
    use(lane, channel, group);
    if (strip.isOneChannel)
      continue;
    ++channel;
    if (--left == 0)
      ++group, left = shape.width;
  }
}

/// Of the groups of a share.
struct Statistics {
  double count[kMostLanes] = {}, mean[kMostLanes] = {}, deviations[kMostLanes] = {};

  Statistics(const Groups &shape, const Share &share, const float *x) {
    shape.forEachRun(share, [&]<class Strip>(const Strip &strip) {
      LaneStatistics<Strip::L> lanes;
      for (int64_t i = 0; i < strip.vectors; i += kTogether)
        lanes.add(x + strip.offset + i * Strip::L, std::min(kTogether, strip.vectors - i));
      forLanes(shape, share, strip, [&](int lane, int64_t, int64_t g) {
        const double more = lanes.pixels, delta = lanes.mean[lane] - mean[g];
        const double part = more / (count[g] + more);
        deviations[g] += lanes.deviations[lane] + delta * delta * count[g] * part;
        mean[g] += delta * part;
        count[g] += more;
      });
    });
  }
  float inverse(int64_t g, double epsilon) const {
    return static_cast<float>(1 / std::sqrt(deviations[g] / count[g] + epsilon));
  }
};

/// One number per channel each, null where they are left out.
struct ChannelNumbers {
  const float *scale, *bias;
};

/// What the lanes of a strip are normalised with; zeros for those that are not there, so that
/// padding stays zero.
template <int L> struct LaneNumbers {
  float mean[L] = {}, inverse[L] = {}, scale[L] = {}, bias[L] = {};

  void set(int lane, int64_t channel, float center, float factor, const ChannelNumbers &numbers) {
    mean[lane] = center;
    inverse[lane] = factor;
    scale[lane] = numbers.scale ? numbers.scale[channel] : 1;
    bias[lane] = numbers.bias ? numbers.bias[channel] : 0;
  }
};

float gateOf(float y) { return 1 / (1 + exponential(-y)); }

template <bool swish, int L>
void normaliseStrip(const Strip<L> &strip, const LaneNumbers<L> &numbers, const float *x,
                    float *y) {
  for (int64_t i = 0; i < strip.vectors; ++i) {
    const float *from = x + strip.offset + i * L;
    float *to = y + strip.offset + i * L;
#pragma omp simd
    for (int lane = 0; lane < L; ++lane) {
      const float hat = (from[lane] - numbers.mean[lane]) * numbers.inverse[lane];
      const float value = hat * numbers.scale[lane] + numbers.bias[lane];
      to[lane] = swish ? value * gateOf(value) : value;
    }
  }
}

/// Sums of what arrives at y and of that times the normalised x. What arrives behind a swish is
/// kept at `arriving` (null: nowhere).
template <int L> struct GradientSums {
  double gradient[L] = {}, product[L] = {};

  template <bool swish>
  void add(const Strip<L> &strip, const LaneNumbers<L> &numbers, const float *dy, const float *x,
           float *arriving) {
    for (int64_t first = 0; first < strip.vectors; first += kTogether) {
      float gradients[L] = {}, products[L] = {};
      for (int64_t i = first; i < std::min(first + kTogether, strip.vectors); ++i) {
        const int64_t at = strip.offset + i * L;
#pragma omp simd
        for (int lane = 0; lane < L; ++lane) {
          const float hat = (x[at + lane] - numbers.mean[lane]) * numbers.inverse[lane];
          float g = dy[at + lane];
          if constexpr (swish) {
            const float y = hat * numbers.scale[lane] + numbers.bias[lane], gate = gateOf(y);
            g *= gate * (1 + y * (1 - gate));
            if (arriving)
              arriving[at + lane] = g;
          }
          gradients[lane] += g;
          products[lane] += g * hat;
        }
      }
      for (int lane = 0; lane < L; ++lane)
        gradient[lane] += gradients[lane], product[lane] += products[lane];
    }
  }
};

/// Means over a group of what arrives at the normalised x, and of that times x.
struct GroupMeans {
  float gradient[kMostLanes], product[kMostLanes];
};

template <int L>
void inputGradientOf(const Strip<L> &strip, const LaneNumbers<L> &numbers,
                     const float (&ofGradient)[L], const float (&ofProduct)[L],
                     const float *arriving, const float *x, float *dx) {
  for (int64_t i = 0; i < strip.vectors; ++i) {
    const int64_t at = strip.offset + i * L;
#pragma omp simd
    for (int lane = 0; lane < L; ++lane) {
      const float hat = (x[at + lane] - numbers.mean[lane]) * numbers.inverse[lane];
      const float centred =
          arriving[at + lane] * numbers.scale[lane] - ofGradient[lane] - hat * ofProduct[lane];
      dx[at + lane] = numbers.inverse[lane] * centred;
    }
  }
}

/// The gradient of a share: dx, and the sums of its channels.
struct ShareGradient {
  const Groups &shape;
  const Share &share;
  ChannelNumbers numbers;
  const float *dy, *x, *mean, *inverse; ///< the latter two of the share's first group
  float *dx;                            ///< null: it is not wanted
  float *gradients, *products;          ///< of the sample's channels

  template <bool swish> void run() const {
    std::fill_n(gradients + share.channel, share.channels, 0.0f);
    std::fill_n(products + share.channel, share.channels, 0.0f);
    shape.forEachStrip(share, [&]<class Strip>(const Strip &strip) {
      GradientSums<Strip::L> sums;
      sums.template add<swish>(strip, numbersOf(strip), dy, x, dx);
      forLanes(shape, share, strip, [&](int lane, int64_t channel, int64_t) {
        gradients[channel] += static_cast<float>(sums.gradient[lane]);
        products[channel] += static_cast<float>(sums.product[lane]);
      });
    });
    if (!dx)
      return;
    const GroupMeans means = groupMeans();
    shape.forEachStrip(share, [&]<class Strip>(const Strip &strip) {
      constexpr int L = Strip::L;
      float ofGradient[L] = {}, ofProduct[L] = {};
      forLanes(shape, share, strip, [&](int lane, int64_t, int64_t g) {
        ofGradient[lane] = means.gradient[g], ofProduct[lane] = means.product[g];
      });
      inputGradientOf<L>(strip, numbersOf(strip), ofGradient, ofProduct, swish ? dx : dy, x, dx);
    });
  }

private:
  template <int L> LaneNumbers<L> numbersOf(const Strip<L> &strip) const {
    LaneNumbers<L> all;
    forLanes(shape, share, strip, [&](int lane, int64_t channel, int64_t g) {
      all.set(lane, channel, mean[g], inverse[g], numbers);
    });
    return all;
  }
  GroupMeans groupMeans() const {
    double gradient[kMostLanes] = {}, product[kMostLanes] = {};
    for (int64_t i = 0; i < share.channels; ++i) {
      const int64_t channel = share.channel + i, g = i / shape.width;
      const double scale = numbers.scale ? numbers.scale[channel] : 1;
      gradient[g] += scale * gradients[channel];
      product[g] += scale * products[channel];
    }
    const double size = static_cast<double>(shape.width * shape.pixels);
    GroupMeans means;
    for (int g = 0; g < kMostLanes; ++g) {
      means.gradient[g] = static_cast<float>(gradient[g] / size);
      means.product[g] = static_cast<float>(product[g] / size);
    }
    return means;
  }
};

/// sums[c] = what the samples have of channel c, added in their order.
void addSamples(const ChannelLayout &shape, const float *ofSamples, float *sums) {
  constexpr int64_t kColumns = 64;
  for (int64_t first = 0; first < shape.channels; first += kColumns) {
    const int64_t columns = std::min(kColumns, shape.channels - first);
    double total[kColumns] = {};
    for (int64_t n = 0; n < shape.batch; ++n)
      for (int64_t c = 0; c < columns; ++c)
        total[c] += ofSamples[n * shape.channels + first + c];
    for (int64_t c = 0; c < columns; ++c)
      sums[first + c] = static_cast<float>(total[c]);
  }
}

} // namespace

GroupNormalization::GroupNormalization(const Device &device, const GroupNormalizationFields &fields)
    : fields(fields), shape(fields.input, fields.layout), threads(device.threads) {}

void GroupNormalization::call(const Run &, const NormalizationPointers<3> &pointers) const {
  const float *x = pointers.inputs[0];
  const ChannelNumbers given = {pointers.inputs[1], pointers.inputs[2]};
  auto [y, mean, inverse] = pointers.outputs;
  const Groups groups(shape, fields.groups);
  groups.forEachShare(threads, [=, this, &groups](const Share &share) {
    const Statistics statistics(groups, share, x);
    float centers[kMostLanes], factors[kMostLanes];
    const int64_t firstGroup = share.sample * groups.groups + share.channel / groups.width;
    for (int64_t g = 0; g < share.channels / groups.width; ++g) {
      centers[g] = static_cast<float>(statistics.mean[g]);
      factors[g] = statistics.inverse(g, fields.epsilon);
      if (mean)
        mean[firstGroup + g] = centers[g];
      if (inverse)
        inverse[firstGroup + g] = factors[g];
    }
    if (!y)
      return;
    groups.forEachStrip(share, [&]<class Strip>(const Strip &strip) {
      LaneNumbers<Strip::L> numbers;
      forLanes(groups, share, strip, [&](int lane, int64_t channel, int64_t g) {
        numbers.set(lane, channel, centers[g], factors[g], given);
      });
      if (fields.swish)
        normaliseStrip<true>(strip, numbers, x, y);
      else
        normaliseStrip<false>(strip, numbers, x, y);
    });
  });
}

GroupNormalizationGradient::GroupNormalizationGradient(const Device &device,
                                                       const GroupNormalizationFields &fields)
    : fields(fields), shape(fields.input, fields.layout), threads(device.threads) {}

void GroupNormalizationGradient::call(const Run &run,
                                      const NormalizationPointers<3> &pointers) const {
  const std::span<const float *const> in = pointers.inputs;
  auto [dx, dscale, dbias] = pointers.outputs;
  const Groups groups(shape, fields.groups);
  float *gradients = reinterpret_cast<float *>(run.scratchBase);
  float *products = gradients + shape.batch * shape.channels;
  groups.forEachShare(threads, [&, dx = dx](const Share &share) {
    const int64_t sample = share.sample * groups.channels;
    const int64_t firstGroup = share.sample * groups.groups + share.channel / groups.width;
    const ShareGradient gradient = {groups,
                                    share,
                                    {in[2], in[3]},
                                    in[0],
                                    in[1],
                                    in[4] + firstGroup,
                                    in[5] + firstGroup,
                                    dx,
                                    gradients + sample,
                                    products + sample};
    if (fields.swish)
      gradient.run<true>();
    else
      gradient.run<false>();
  });
  if (dscale)
    addSamples(shape, products, dscale);
  if (dbias)
    addSamples(shape, gradients, dbias);
}

} // namespace pdc::runtime
