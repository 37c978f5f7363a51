#include "runtime/kernels/DepthwiseWeightGradient.h"

#include "runtime/Error.h"
#include "runtime/kernels/Lanes.h"
#include "runtime/kernels/Layouts.h"

#include <algorithm>
#include <string_view>

namespace pdc::runtime {

/// Taps that are summed together: their sums stay in registers.
static constexpr int kMostTaps = 8;

DepthwiseWeightGradient::Layout DepthwiseWeightGradient::layoutOf(const Dimensions &shape,
                                                                  const char *layout) {
  const int64_t lanes = channelBlock(layout), channels = shape[1], length = shape[2];
  if (std::string_view(layout) == "acb")
    return {channels * length, 1, channels};
  if (lanes != 8 && lanes != 16)
    throw Error("no kernel for layout '", layout, "' of lines; regenerate the sources with pdc");
  const int64_t blocks = (channels + lanes - 1) / lanes;
  return {blocks * length * lanes, length, lanes};
}

DepthwiseWeightGradient::DepthwiseWeightGradient(const Device &device, const ConvolutionFields &f)
    : samples(f.input[0]), channels(f.input[1]), length(f.input[2]), results(f.output[2]),
      window(f.weight[2]), stride(f.strides[0]), dilation(f.dilations[0]), pad(f.padsBegin[0]),
      lanes(std::string_view(f.inputLayout) == "acb" ? 16 : channelBlock(f.inputLayout)),
      input(layoutOf(f.input, f.inputLayout)), output(layoutOf(f.output, f.outputLayout)),
      threads(device.threads) {}

/// The taps of `L` channels that lie together.
template <int L> class DepthwiseTaps {
public:
  using Vector = typename Lanes<L>::Vector;

  DepthwiseTaps(const DepthwiseWeightGradient &kernel, const float *dy, const float *x,
                int64_t channel)
      : k(kernel), dy(dy + channel * kernel.output.block), x(x + channel * kernel.input.block) {}

  /// Taps from `first` on: of each the sum over a sample's results, then over the samples.
  template <int Taps> void sum(int64_t first, Vector (&totals)[kMostTaps]) const {
    const int64_t from = firstWithin(first), to = std::max(from, endWithin(first + Taps - 1));
    for (int64_t n = 0; n < k.samples; ++n) {
      alignas(64) Vector sums[Taps] = {};
      const float *g = dy + n * k.output.sample, *in = x + n * k.input.sample;
      for (int64_t t = from; t < to; ++t) {
        const Vector gradient = Lanes<L>::load(g + t * k.output.pixel);
        const float *at = in + (t * k.stride + first * k.dilation - k.pad) * k.input.pixel;
        for (int i = 0; i < Taps; ++i)
          sums[i] += gradient * Lanes<L>::load(at + i * k.dilation * k.input.pixel);
      }
      for (int i = 0; i < Taps; ++i)
        totals[i] += sums[i] + ofBorders(g, in, first + i, from, to);
    }
  }

private:
  /// The first result whose window has this tap within the line, and the end of those.
  int64_t firstWithin(int64_t tap) const {
    const int64_t before = k.pad - tap * k.dilation;
    return std::clamp<int64_t>((before + k.stride - 1) / k.stride, 0, k.results);
  }
  int64_t endWithin(int64_t tap) const {
    const int64_t left = k.length + k.pad - tap * k.dilation;
    return left <= 0 ? 0 : std::min(k.results, (left - 1) / k.stride + 1);
  }

  /// What a tap has beside the results where all that are summed with it lie within the line.
  Vector ofBorders(const float *g, const float *in, int64_t tap, int64_t from, int64_t to) const {
    const int64_t begin = firstWithin(tap), end = endWithin(tap);
    return sumOf(g, in, tap, begin, std::min(from, end)) +
           sumOf(g, in, tap, std::max(begin, to), end);
  }
  Vector sumOf(const float *g, const float *in, int64_t tap, int64_t begin, int64_t end) const {
    Vector sum = {};
    for (int64_t t = begin; t < end; ++t)
      sum += Lanes<L>::load(g + t * k.output.pixel) *
             Lanes<L>::load(in + (t * k.stride + tap * k.dilation - k.pad) * k.input.pixel);
    return sum;
  }

  const DepthwiseWeightGradient &k;
  const float *dy, *x;
};

namespace {

/// dw of some channels: as many taps together as there are.
template <int L>
void writeTaps(const DepthwiseTaps<L> &taps, int64_t window, int64_t valid, float *dw, bool add) {
  for (int64_t first = 0; first < window;) {
    alignas(64) typename Lanes<L>::Vector totals[kMostTaps] = {}; // what is handed on is aligned
    const int64_t left = window - first, count = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
    if (count == 8)
      taps.template sum<8>(first, totals);
    else if (count == 4)
      taps.template sum<4>(first, totals);
    else if (count == 2)
      taps.template sum<2>(first, totals);
    else
      taps.template sum<1>(first, totals);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t lane = 0; lane < valid; ++lane) {
        float &to = dw[lane * window + first + i];
        to = (add ? to : 0) + totals[i][lane];
      }
    first += count;
  }
}

} // namespace

void DepthwiseWeightGradient::operator()(const Run &, const float *dy, const float *x, float *dw,
                                         bool add) const {
  const bool hasBlocks = input.pixel == lanes && output.pixel == lanes;
  const int64_t blocks = hasBlocks ? (channels + lanes - 1) / lanes : channels / lanes;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t c = b * lanes, valid = std::min(lanes, channels - c);
    if (lanes == 16)
      writeTaps(DepthwiseTaps<16>(*this, dy, x, c), window, valid, dw + c * window, add);
    else
      writeTaps(DepthwiseTaps<8>(*this, dy, x, c), window, valid, dw + c * window, add);
  }
  for (int64_t c = blocks * lanes; c < channels; ++c)
    writeTaps(DepthwiseTaps<1>(*this, dy, x, c), window, 1, dw + c * window, add);
}

} // namespace pdc::runtime
