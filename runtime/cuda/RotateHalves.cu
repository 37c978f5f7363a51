#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Lanes.h"
#include "runtime/cuda/Launch.h"
#include "runtime/cuda/Strides.h"

namespace pdc::runtime::cuda {

namespace {

/// A thread turns `Width` neighbours of a row's first half with those of its second.
template <int Width, class T>
__global__ void rotateKernel(int64_t groups, int64_t half, StridedWalk rows, bool isInverse,
                             const T *x, const float *cosines, const float *sines, T *y) {
  const int64_t i = globalThread();
  if (i >= groups)
    return;
  const int64_t perRow = half / Width, row = i / perRow, j = i % perRow * Width;
  const int64_t here = row * 2 * half + j, angle = rows.from(row) + j;
  const auto first = load<Width>(x + here), second = load<Width>(x + here + half);
  const auto cosFirst = load<Width>(cosines + angle),
             cosSecond = load<Width>(cosines + angle + half);
  const auto sinFirst = load<Width>(sines + angle), sinSecond = load<Width>(sines + angle + half);
  Lanes<float, Width> made, behind;
  for (int lane = 0; lane < Width; ++lane) {
    const float toFirst = second.at[lane] * (isInverse ? sinSecond.at[lane] : -sinFirst.at[lane]);
    const float toSecond = first.at[lane] * (isInverse ? -sinFirst.at[lane] : sinSecond.at[lane]);
    made.at[lane] = first.at[lane] * cosFirst.at[lane] + toFirst;
    behind.at[lane] = second.at[lane] * cosSecond.at[lane] + toSecond;
  }
  store(y + here, made);
  store(y + here + half, behind);
}

} // namespace

template <class T>
void RotateHalves::operator()(const Run &run, const T *x, const float *cosines, const float *sines,
                              T *y) const {
  const StridedWalk rows(fields.rows, fields.strides);
  const int64_t half = fields.width / 2, isWide = half % kLanes == 0;
  const int64_t groups = rows.elements * half / (isWide ? kLanes : 1);
  launchOver(run, groups, isWide ? rotateKernel<kLanes, T> : rotateKernel<1, T>, groups, half, rows,
             fields.inverse != 0, x, cosines, sines, y);
}

#define PDC_ROTATIONS(T)                                                                           \
  template void RotateHalves::operator()(const Run &, const T *, const float *, const float *,     \
                                         T *) const;
PDC_ROTATIONS(float)
PDC_ROTATIONS(BFloat16)
PDC_ROTATIONS(Float16)
#undef PDC_ROTATIONS

} // namespace pdc::runtime::cuda
