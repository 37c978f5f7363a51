#include "runtime/kernels/RotateHalves.h"

#include "runtime/kernels/StridedWalk.h"

namespace pdc::runtime {

namespace {

/// Of one row; all halves are apart, or y is x.
template <bool IsInverse, bool IsInterleaved>
void rotate(int64_t half, const float *x, const float *cosines, const float *sines, float *y) {
#pragma omp simd
  for (int64_t j = 0; j < half; ++j) {
    const int64_t a = IsInterleaved ? 2 * j : j, b = IsInterleaved ? a + 1 : a + half;
    const float first = x[a], second = x[b];
    const float toFirst = second * sines[IsInverse ? b : a],
                toSecond = first * sines[IsInverse ? a : b];
    y[a] = first * cosines[a] + (IsInverse ? toFirst : -toFirst);
    y[b] = second * cosines[b] + (IsInverse ? -toSecond : toSecond);
  }
}

template <bool IsInterleaved> auto rotationOf(bool isInverse) {
  return isInverse ? rotate<true, IsInterleaved> : rotate<false, IsInterleaved>;
}

} // namespace

RotateHalves::RotateHalves(const Device &device, const RotateHalvesFields &f)
    : fields(f), rows(product(f.rows)), threads(device.threads) {}

void RotateHalves::operator()(const Run &, const float *x, const float *cosines, const float *sines,
                              float *y) const {
  const auto turn = fields.interleaved ? rotationOf<true>(fields.inverse != 0)
                                       : rotationOf<false>(fields.inverse != 0);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (rows * fields.width >= kParallelWalk)
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = offsetAt(row, fields.rows, fields.strides);
    turn(fields.width / 2, x + row * fields.width, cosines + at, sines + at,
         y + row * fields.width);
  }
}

} // namespace pdc::runtime
