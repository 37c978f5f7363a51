#include "runtime/kernels/RotateHalves.h"

#include "runtime/kernels/StridedWalk.h"

namespace pdc::runtime {

namespace {

/// Of one row; all halves are apart, or y is x.
template <bool IsInverse>
void rotate(int64_t half, const float *x, const float *cosines, const float *sines, float *y) {
#pragma omp simd
  for (int64_t j = 0; j < half; ++j) {
    const float first = x[j], second = x[j + half];
    const float toFirst = second * sines[IsInverse ? j + half : j],
                toSecond = first * sines[IsInverse ? j : j + half];
    y[j] = first * cosines[j] + (IsInverse ? toFirst : -toFirst);
    y[j + half] = second * cosines[j + half] + (IsInverse ? -toSecond : toSecond);
  }
}

} // namespace

RotateHalves::RotateHalves(const Device &device, const RotateHalvesFields &f)
    : fields(f), rows(product(f.rows)), threads(device.threads) {}

void RotateHalves::operator()(const Run &, const float *x, const float *cosines, const float *sines,
                              float *y) const {
  const auto turn = fields.inverse ? rotate<true> : rotate<false>;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (rows * fields.width >= kParallelWalk)
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = offsetAt(row, fields.rows, fields.strides);
    turn(fields.width / 2, x + row * fields.width, cosines + at, sines + at,
         y + row * fields.width);
  }
}

} // namespace pdc::runtime
