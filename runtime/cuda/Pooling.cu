#include "runtime/cuda/Channels.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Windows.h"
#include "runtime/kernels/StridedWalk.h"

#include <string_view>
#include <type_traits>

namespace pdc::runtime::cuda {

namespace {

enum class Mode { max, average, averageWithPads };

Mode modeOf(const PoolingFields &f) {
  std::string_view mode = f.mode;
  return mode == "max" ? Mode::max : mode == "average" ? Mode::average : Mode::averageWithPads;
}

/// body.at<Width>(pixel, channel) for each `Width` neighbours of a pixel of the results.
template <int Width, class Index, class Body>
__global__ void pixelKernel(int64_t elements, Divisor<Index> groups, Body body) {
  const int64_t i = globalThread();
  if (i * Width >= elements)
    return;
  const Index group = static_cast<Index>(i), pixel = groups.quotient(group);
  body.template at<Width>(pixel, (group - pixel * groups.value()) * Width);
}

/// `makeBody` is given the windows, which count by numbers of 32 bits where those suffice.
template <class MakeBody>
void overPixels(const Run &run, const PoolingFields &fields, const Dimensions &results,
                MakeBody makeBody) {
  const Channels shape(results);
  auto start = [&]<class Index>(const Windows<Index> &windows) {
    const auto body = makeBody(windows);
    using Body = std::remove_const_t<decltype(body)>;
    auto over = [&](int64_t width, auto kernel) {
      launchOver(run, shape.elements() / width, kernel, shape.elements(),
                 Divisor<Index>(shape.columns / width), body);
    };
    if (shape.columns % kLanes == 0)
      over(kLanes, pixelKernel<kLanes, Index, Body>);
    else
      over(1, pixelKernel<1, Index, Body>);
  };
  if (areCountedIn32Bits(fields))
    start(Windows<int32_t>(fields));
  else
    start(Windows<int64_t>(fields));
}

/// `positions` may be null. (Nothing overtakes a NaN; a first element always counts.)
template <class Index, class T, class Position> struct Pool {
  Windows<Index> w;
  int64_t channels;
  Mode mode;
  const T *x;
  T *y;
  Position *positions;

  template <int Width> __device__ void at(Index window, int64_t c) const {
    Lanes<float, Width> most = {}, sum = {};
    Lanes<Position, Width> best = {};
    bool isFirst = true;
    const Index inside = w.overTaps(window, [&](Index pixel, Index tap) {
      const auto value = load<Width>(x + pixel * channels + c);
      for (int lane = 0; lane < Width; ++lane) {
        sum.at[lane] += value.at[lane];
        if (isFirst || value.at[lane] > most.at[lane] || value.at[lane] != value.at[lane]) {
          most.at[lane] = value.at[lane];
          best.at[lane] = static_cast<Position>(tap);
        }
      }
      isFirst = false;
    });
    const auto count = static_cast<float>(mode == Mode::average ? inside : w.taps());
    const int64_t i = window * channels + c;
    if (mode != Mode::max)
      for (int lane = 0; lane < Width; ++lane)
        most.at[lane] = sum.at[lane] / count;
    store(y + i, most);
    if (positions)
      *reinterpret_cast<Lanes<Position, Width> *>(positions + i) = best;
  }
};

/// dx gathers from every window that holds its pixel: no atomics.
template <class Index, class T, class Position> struct PoolGradient {
  Windows<Index> w;
  int64_t channels;
  Mode mode;
  const T *dy;
  const Position *positions;
  T *dx;

  template <int Width> __device__ void at(Index pixel, int64_t c) const {
    Lanes<float, Width> sum = {};
    w.overWindows(pixel, [&](Index window, Index tap, Index i, Index j, Index k) {
      const int64_t at = window * channels + c;
      const auto arriving = load<Width>(dy + at);
      if (mode != Mode::max) {
        const auto count =
            static_cast<float>(mode == Mode::average ? w.tapsInside(i, j, k) : w.taps());
        for (int lane = 0; lane < Width; ++lane)
          sum.at[lane] += arriving.at[lane] / count;
        return;
      }
      const auto best = *reinterpret_cast<const Lanes<Position, Width> *>(positions + at);
      for (int lane = 0; lane < Width; ++lane)
        sum.at[lane] += static_cast<Index>(best.at[lane]) == tap ? arriving.at[lane] : 0.0f;
    });
    store(dx + pixel * channels + c, sum);
  }
};

template <class T, class Position>
void pool(const Run &run, const PoolingFields &f, const T *x, T *y, Position *positions) {
  overPixels(run, f, f.output, [&]<class Index>(const Windows<Index> &windows) {
    return Pool<Index, T, Position>{windows, f.input[1], modeOf(f), x, y, positions};
  });
}

template <class T, class Position>
void gather(const Run &run, const PoolingFields &f, const T *dy, const Position *positions, T *dx) {
  overPixels(run, f, f.input, [&]<class Index>(const Windows<Index> &windows) {
    return PoolGradient<Index, T, Position>{windows, f.input[1], modeOf(f), dy, positions, dx};
  });
}

/// u8 holds a tap.
bool hasBytes(const PoolingFields &f) { return product(f.kernel) < 256; }

} // namespace

template <class T> void Pooling::operator()(const Run &run, const T *x, T *y) const {
  pool<T, uint8_t>(run, fields, x, y, nullptr);
}

template <class T>
void Pooling::operator()(const Run &run, const T *x, T *y, void *positions) const {
  if (hasBytes(fields))
    pool(run, fields, x, y, static_cast<uint8_t *>(positions));
  else
    pool(run, fields, x, y, static_cast<int32_t *>(positions));
}

template <class T> void PoolingGradient::operator()(const Run &run, const T *dy, T *dx) const {
  gather<T, uint8_t>(run, fields, dy, nullptr, dx);
}

template <class T>
void PoolingGradient::operator()(const Run &run, const T *dy, const void *positions, T *dx) const {
  if (hasBytes(fields))
    gather(run, fields, dy, static_cast<const uint8_t *>(positions), dx);
  else
    gather(run, fields, dy, static_cast<const int32_t *>(positions), dx);
}

#define PDC_POOLING(T)                                                                             \
  template void Pooling::operator()(const Run &, const T *, T *) const;                            \
  template void Pooling::operator()(const Run &, const T *, T *, void *) const;                    \
  template void PoolingGradient::operator()(const Run &, const T *, T *) const;                    \
  template void PoolingGradient::operator()(const Run &, const T *, const void *, T *) const;
PDC_POOLING(float)
PDC_POOLING(BFloat16)
PDC_POOLING(Float16)
#undef PDC_POOLING

} // namespace pdc::runtime::cuda
