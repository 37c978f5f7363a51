#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Lanes.h"
#include "runtime/cuda/Launch.h"
#include "runtime/cuda/Strides.h"

namespace pdc::runtime::cuda {

namespace {

/// What two elements that are turned together become.
struct Turned {
  float first, second;
  __device__ Turned(bool isInverse, float a, float b, float cosA, float cosB, float sinA,
                    float sinB) {
    const float toFirst = b * (isInverse ? sinB : -sinA), toSecond = a * (isInverse ? -sinA : sinB);
    first = a * cosA + toFirst;
    second = b * cosB + toSecond;
  }
};

template <class T> struct Turning {
  int64_t half; ///< of a row
  StridedWalk rows;
  bool isInverse;
  const T *x;
  const float *cosines, *sines;
  T *y;
};

/// A thread turns `Width` neighbours of a row's first half with those of its second.
template <int Width, class T> __global__ void turnHalves(int64_t groups, Turning<T> in) {
  const int64_t i = globalThread(), half = in.half;
  if (i >= groups)
    return;
  const int64_t perRow = half / Width, row = i / perRow, j = i % perRow * Width;
  const int64_t here = row * 2 * half + j, angle = in.rows.from(row) + j;
  const auto first = load<Width>(in.x + here), second = load<Width>(in.x + here + half);
  const auto cosFirst = load<Width>(in.cosines + angle),
             cosSecond = load<Width>(in.cosines + angle + half);
  const auto sinFirst = load<Width>(in.sines + angle),
             sinSecond = load<Width>(in.sines + angle + half);
  Lanes<float, Width> made, behind;
  for (int lane = 0; lane < Width; ++lane) {
    const Turned turned(in.isInverse, first.at[lane], second.at[lane], cosFirst.at[lane],
                        cosSecond.at[lane], sinFirst.at[lane], sinSecond.at[lane]);
    made.at[lane] = turned.first;
    behind.at[lane] = turned.second;
  }
  store(in.y + here, made);
  store(in.y + here + half, behind);
}

/// A thread turns `Width` neighbours of a row, each second with the one before it.
template <int Width, class T> __global__ void turnNeighbours(int64_t groups, Turning<T> in) {
  const int64_t i = globalThread();
  if (i >= groups)
    return;
  const int64_t perRow = 2 * in.half / Width, row = i / perRow, j = i % perRow * Width;
  const int64_t here = row * 2 * in.half + j, angle = in.rows.from(row) + j;
  auto values = load<Width>(in.x + here);
  const auto cosines = load<Width>(in.cosines + angle), sines = load<Width>(in.sines + angle);
  for (int lane = 0; lane < Width; lane += 2) {
    const Turned turned(in.isInverse, values.at[lane], values.at[lane + 1], cosines.at[lane],
                        cosines.at[lane + 1], sines.at[lane], sines.at[lane + 1]);
    values.at[lane] = turned.first;
    values.at[lane + 1] = turned.second;
  }
  store(in.y + here, values);
}

} // namespace

template <class T>
void RotateHalves::operator()(const Run &run, const T *x, const float *cosines, const float *sines,
                              T *y) const {
  const int64_t half = fields.width / 2;
  const Turning<T> turning = {
      half, {fields.rows, fields.strides}, fields.inverse != 0, x, cosines, sines, y};
  const int64_t pairs = turning.rows.elements * half;
  if (fields.interleaved && fields.width % kLanes == 0)
    launchOver(run, 2 * pairs / kLanes, turnNeighbours<kLanes, T>, 2 * pairs / kLanes, turning);
  else if (fields.interleaved)
    launchOver(run, pairs, turnNeighbours<2, T>, pairs, turning);
  else if (half % kLanes == 0)
    launchOver(run, pairs / kLanes, turnHalves<kLanes, T>, pairs / kLanes, turning);
  else
    launchOver(run, pairs, turnHalves<1, T>, pairs, turning);
}

#define PDC_ROTATIONS(T)                                                                           \
  template void RotateHalves::operator()(const Run &, const T *, const float *, const float *,     \
                                         T *) const;
PDC_ROTATIONS(float)
PDC_ROTATIONS(BFloat16)
PDC_ROTATIONS(Float16)
#undef PDC_ROTATIONS

} // namespace pdc::runtime::cuda
