#include "runtime/kernels/ColumnSum.h"

#include "runtime/kernels/Lanes.h"

#include <algorithm>

namespace pdc::runtime {

ColumnSum::ColumnSum(const Device &device, const ColumnSumFields &f)
    : shape(f.input, f.layout), threads(device.threads) {}

/// Sums `rows` vectors that lie `stride` apart into four running sums, which hides their latency.
template <int L>
static typename Lanes<L>::Vector sumRows(const float *x, int64_t rows, int64_t stride) {
  typename Lanes<L>::Vector sums[4] = {};
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4)
    for (int k = 0; k < 4; ++k)
      sums[k] += Lanes<L>::load(x + (r + k) * stride);
  for (; r < rows; ++r)
    sums[0] += Lanes<L>::load(x + r * stride);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <int L>
static void finish(typename Lanes<L>::Vector total, float *sum, int64_t channels, bool add) {
  if (add)
    total += Lanes<L>::loadPart(sum, channels);
  Lanes<L>::storePart(sum, total, channels);
}

template <int L>
static void sumBlocks(const ChannelLayout &s, int threads, const float *x, float *sum, bool add) {
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t b = 0; b < s.blocks(); ++b) {
    typename Lanes<L>::Vector total = {};
    for (int64_t n = 0; n < s.batch; ++n)
      total += sumRows<L>(x + (n * s.blocks() + b) * s.pixels * L, s.pixels, L);
    finish<L>(total, sum + b * L, std::min<int64_t>(L, s.channels - b * L), add);
  }
}

/// The columns of a row-major matrix.
static void sumMatrix(const ChannelLayout &s, int threads, const float *x, float *sum, bool add) {
  int64_t whole = s.channels / 16 * 16;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t c = 0; c < whole; c += 16)
    finish<16>(sumRows<16>(x + c, s.batch, s.channels), sum + c, 16, add);
  for (int64_t c = whole; c < s.channels; ++c)
    finish<1>(sumRows<1>(x + c, s.batch, s.channels), sum + c, 1, add);
}

/// Row-major images: sixteen pixels at a time, then the lanes.
static void sumPlanes(const ChannelLayout &s, int threads, const float *x, float *sum, bool add) {
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t c = 0; c < s.channels; ++c) {
    float total = 0;
    for (int64_t n = 0; n < s.batch; ++n) {
      const float *plane = x + (n * s.channels + c) * s.pixels;
      Lanes<16>::Vector lanes = sumRows<16>(plane, s.pixels / 16, 16);
      float image = 0;
      for (int i = 0; i < 16; ++i)
        image += lanes[i];
      for (int64_t p = s.pixels / 16 * 16; p < s.pixels; ++p)
        image += plane[p];
      total += image;
    }
    sum[c] = add ? sum[c] + total : total;
  }
}

void ColumnSum::operator()(const Run &, const float *x, float *sum, bool add) {
  if (shape.lanes == 16)
    sumBlocks<16>(shape, threads, x, sum, add);
  else if (shape.lanes == 8)
    sumBlocks<8>(shape, threads, x, sum, add);
  else if (shape.pixels == 1)
    sumMatrix(shape, threads, x, sum, add);
  else
    sumPlanes(shape, threads, x, sum, add);
}

} // namespace pdc::runtime
