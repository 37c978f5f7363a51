#include "runtime/kernels/BatchNormalization.h"

#include "runtime/kernels/BatchNormalizationGradient.h"
#include "runtime/kernels/BatchNormalizationInference.h"
#include "runtime/kernels/LaneStatistics.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cmath>

namespace pdc::runtime {

namespace {

/// `Count` neighbouring channels of all images: in blocked layouts a channel block, in a row-major
/// matrix as many columns. Pixels of an image lie `Count` elements apart.
template <int Count> struct Slab {
  using V = typename Lanes<Count>::Vector;
  static constexpr int L = Count;
  int64_t batch, pixels, imageStride;
  int64_t offset;       ///< of the first image's first pixel
  int64_t firstChannel; ///< and the number of channels that exist
  int64_t channels;

  V perChannel(const float *values) const {
    return Lanes<L>::loadPart(values + firstChannel, channels);
  }
  void setPerChannel(float *values, V v) const {
    if (values)
      Lanes<L>::storePart(values + firstChannel, v, channels);
  }
  int64_t image(int64_t n) const { return offset + n * imageStride; }
  double samples() const { return static_cast<double>(batch * pixels); }
};

/// Calls work(slab) for every slab, in parallel.
template <class Work> void forEachSlab(const ChannelLayout &s, int threads, Work work) {
  if (s.lanes > 1) {
    int64_t imageStride = s.blocks() * s.pixels * s.lanes;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t b = 0; b < s.blocks(); ++b) {
      int64_t first = b * s.lanes, channels = std::min(s.lanes, s.channels - first);
      int64_t offset = first * s.pixels;
      if (s.lanes == 16)
        work(Slab<16>{s.batch, s.pixels, imageStride, offset, first, channels});
      else
        work(Slab<8>{s.batch, s.pixels, imageStride, offset, first, channels});
    }
    return;
  }
  int64_t whole = s.channels / 16 * 16;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t c = 0; c < whole; c += 16)
    work(Slab<16>{s.batch, 1, s.channels, c, c, 16});
  for (int64_t c = whole; c < s.channels; ++c)
    work(Slab<1>{s.batch, 1, s.channels, c, c, 1});
}

template <class V> V relu(V v) {
  V zero = {};
  return v < zero ? zero : v;
}

/// y = (x - center) * factor + offset [relu] for all images of a slab.
template <class Slab>
void normalise(const Slab &slab, const float *x, float *y, typename Slab::V center,
               typename Slab::V factor, typename Slab::V offset, bool rectify) {
  constexpr int L = Slab::L;
  for (int64_t n = 0; n < slab.batch; ++n) {
    const float *from = x + slab.image(n);
    float *to = y + slab.image(n);
    for (int64_t p = 0; p < slab.pixels; ++p) {
      typename Slab::V v = (Lanes<L>::load(from + p * L) - center) * factor + offset;
      Lanes<L>::store(to + p * L, rectify ? relu(v) : v);
    }
  }
}

ChannelLayout checkedLayout(const BatchNormalizationFields &fields) {
  ChannelLayout shape(fields.input, fields.layout);
  if (shape.lanes == 1 && shape.pixels != 1)
    throw Error("batch normalization runs on channel blocks, not on row-major images; regenerate "
                "the sources with pdc");
  return shape;
}

template <class V> V inverseRoot(V variance, double epsilon, int lanes) {
  V inverse = {};
  for (int i = 0; i < lanes; ++i)
    inverse[i] = static_cast<float>(1 / std::sqrt(static_cast<double>(variance[i]) + epsilon));
  return inverse;
}

} // namespace

BatchNormalization::BatchNormalization(const Device &device, const BatchNormalizationFields &f)
    : fields(f), shape(checkedLayout(f)), threads(device.threads) {}

void BatchNormalization::call(const Run &, const NormalizationPointers<5> &pointers) {
  const float *x = pointers.inputs[0], *scale = pointers.inputs[1], *bias = pointers.inputs[2],
              *mean = pointers.inputs[3], *variance = pointers.inputs[4];
  auto [y, newMean, newVariance, savedMean, savedInverse] = pointers.outputs;
  forEachSlab(shape, threads, [=, this]<class Slab>(const Slab &slab) {
    using V = typename Slab::V;
    LaneStatistics<Slab::L> statistics;
    for (int64_t n = 0; n < slab.batch; ++n)
      statistics.add(x + slab.image(n), slab.pixels);
    V center = {}, spread = {};
    for (int i = 0; i < Slab::L; ++i) {
      center[i] = static_cast<float>(statistics.mean[i]);
      spread[i] = static_cast<float>(statistics.deviations[i] / slab.samples());
    }
    V inverse = inverseRoot(spread, fields.epsilon, Slab::L);
    const float kept = static_cast<float>(fields.momentum);
    const float fresh = static_cast<float>(1 - fields.momentum);
    slab.setPerChannel(newMean, kept * slab.perChannel(mean) + fresh * center);
    slab.setPerChannel(newVariance, kept * slab.perChannel(variance) + fresh * spread);
    slab.setPerChannel(savedMean, center);
    slab.setPerChannel(savedInverse, inverse);
    if (y)
      normalise(slab, x, y, center, inverse * slab.perChannel(scale), slab.perChannel(bias),
                fields.relu != 0);
  });
}

BatchNormalizationInference::BatchNormalizationInference(const Device &device,
                                                         const BatchNormalizationFields &f)
    : fields(f), shape(checkedLayout(f)), threads(device.threads) {}

void BatchNormalizationInference::operator()(const Run &, const float *x, const float *scale,
                                             const float *bias, const float *mean,
                                             const float *variance, float *y) {
  forEachSlab(shape, threads, [&]<class Slab>(const Slab &slab) {
    typename Slab::V inverse = inverseRoot(slab.perChannel(variance), fields.epsilon, Slab::L);
    normalise(slab, x, y, slab.perChannel(mean), inverse * slab.perChannel(scale),
              slab.perChannel(bias), fields.relu != 0);
  });
}

BatchNormalizationGradient::BatchNormalizationGradient(const Device &device,
                                                       const BatchNormalizationFields &f)
    : fields(f), shape(checkedLayout(f)), threads(device.threads) {}

namespace {

/// The gradient that arrives at the normalisation: behind a relu, zero where its result is.
template <class V, int L> V arriving(const float *dy, const float *y, int64_t at) {
  V g = Lanes<L>::load(dy + at), zero = {};
  if (!y)
    return g;
  V result = Lanes<L>::load(y + at);
  return result > zero ? g : zero;
}

template <class Slab> struct GradientSums {
  typename Slab::V gradient = {}, product = {}; ///< sums of dy and of dy * normalised x

  GradientSums(const Slab &slab, const float *dy, const float *y, const float *x,
               typename Slab::V mean, typename Slab::V inverse) {
    using V = typename Slab::V;
    constexpr int L = Slab::L;
    double gradients[L] = {}, products[L] = {};
    for (int64_t n = 0; n < slab.batch; ++n) {
      V imageGradient[2] = {}, imageProduct[2] = {};
      for (int64_t p = 0, at = slab.image(n); p < slab.pixels; ++p, at += L) {
        V g = arriving<V, L>(dy, y, at);
        imageGradient[p % 2] += g;
        imageProduct[p % 2] += g * ((Lanes<L>::load(x + at) - mean) * inverse);
      }
      for (int i = 0; i < L; ++i) {
        gradients[i] += imageGradient[0][i] + imageGradient[1][i];
        products[i] += imageProduct[0][i] + imageProduct[1][i];
      }
    }
    for (int i = 0; i < L; ++i) {
      gradient[i] = static_cast<float>(gradients[i]);
      product[i] = static_cast<float>(products[i]);
    }
  }
};

} // namespace

void BatchNormalizationGradient::call(const Run &, const NormalizationPointers<3> &pointers) {
  const float *dy = pointers.inputs[0], *y = fields.relu ? pointers.inputs[1] : nullptr;
  const float *const *rest = pointers.inputs.data() + (fields.relu ? 2 : 1);
  const float *x = rest[0], *scale = rest[1], *savedMean = rest[2], *savedInverse = rest[3];
  auto [dx, dscale, dbias] = pointers.outputs;
  forEachSlab(shape, threads, [=]<class Slab>(const Slab &slab) {
    using V = typename Slab::V;
    constexpr int L = Slab::L;
    V mean = slab.perChannel(savedMean), inverse = slab.perChannel(savedInverse);
    GradientSums<Slab> sums(slab, dy, y, x, mean, inverse);
    slab.setPerChannel(dscale, sums.product);
    slab.setPerChannel(dbias, sums.gradient);
    if (!dx)
      return;
    const float share = static_cast<float>(1 / slab.samples());
    V factor = slab.perChannel(scale) * inverse;
    V meanGradient = sums.gradient * share, meanProduct = sums.product * share;
    for (int64_t n = 0; n < slab.batch; ++n)
      for (int64_t p = 0, at = slab.image(n); p < slab.pixels; ++p, at += L) {
        V g = arriving<V, L>(dy, y, at);
        V normalised = (Lanes<L>::load(x + at) - mean) * inverse;
        Lanes<L>::store(dx + at, factor * (g - meanGradient - normalised * meanProduct));
      }
  });
}

} // namespace pdc::runtime
