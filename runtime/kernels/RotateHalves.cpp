#include "runtime/kernels/RotateHalves.h"

#include <omp.h>

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
    : fields(f), threads(device.threads) {
  for (int64_t size : f.rows)
    rows *= size;
}

void RotateHalves::operator()(const Run &, const float *x, const float *cosines, const float *sines,
                              float *y) const {
  const auto turn = fields.inverse ? rotate<true> : rotate<false>;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t row = 0; row < rows; ++row) {
    int64_t at = 0, left = row;
    for (size_t d = fields.rows.size(); d-- > 0; left /= fields.rows[d])
      at += left % fields.rows[d] * fields.strides[d];
    turn(fields.width / 2, x + row * fields.width, cosines + at, sines + at,
         y + row * fields.width);
  }
}

} // namespace pdc::runtime
