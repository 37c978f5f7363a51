#include "runtime/cuda/Channels.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Windows.h"

#include <string_view>
#include <type_traits>

namespace pdc::runtime::cuda {

namespace {

enum class Mode { max, average, averageWithPads };

Mode modeOf(const PoolingFields &f) {
  std::string_view mode = f.mode;
  return mode == "max" ? Mode::max : mode == "average" ? Mode::average : Mode::averageWithPads;
}

/// `positions` may be null. (Nothing overtakes a NaN; a first element always counts.)
template <class T, class Position> struct Pool {
  Windows w;
  Mode mode;
  const T *x;
  T *y;
  Position *positions;

  template <int Width> __device__ void at(int64_t i, int64_t c) const {
    Lanes<float, Width> most = {}, sum = {};
    Lanes<Position, Width> best = {};
    bool isFirst = true;
    const int64_t inside = w.overTaps(i / w.channels, [&](int64_t pixel, int64_t tap) {
      const auto value = load<Width>(x + pixel * w.channels + c);
      for (int lane = 0; lane < Width; ++lane) {
        sum.at[lane] += value.at[lane];
        if (isFirst || value.at[lane] > most.at[lane]) {
          most.at[lane] = value.at[lane];
          best.at[lane] = static_cast<Position>(tap);
        }
      }
      isFirst = false;
    });
    const auto count = static_cast<float>(mode == Mode::average ? inside : w.taps());
    for (int lane = 0; lane < Width; ++lane)
      sum.at[lane] /= count;
    store(y + i, mode == Mode::max ? most : sum);
    if (positions)
      *reinterpret_cast<Lanes<Position, Width> *>(positions + i) = best;
  }
};

/// dx gathers from every window that holds its pixel: no atomics.
template <class T, class Position> struct PoolGradient {
  Windows w;
  Mode mode;
  const T *dy;
  const Position *positions;
  T *dx;

  template <int Width> __device__ void at(int64_t i, int64_t c) const {
    Lanes<float, Width> sum = {};
    w.overWindows(i / w.channels, [&](int64_t window, int64_t tap, int64_t inside) {
      const auto arriving = load<Width>(dy + window * w.channels + c);
      if (mode != Mode::max) {
        const auto count = static_cast<float>(mode == Mode::average ? inside : w.taps());
        for (int lane = 0; lane < Width; ++lane)
          sum.at[lane] += arriving.at[lane] / count;
        return;
      }
      const auto best =
          *reinterpret_cast<const Lanes<Position, Width> *>(positions + window * w.channels + c);
      for (int lane = 0; lane < Width; ++lane)
        sum.at[lane] += static_cast<int64_t>(best.at[lane]) == tap ? arriving.at[lane] : 0.0f;
    });
    store(dx + i, sum);
  }
};

bool hasBytes(const Windows &w) { return w.taps() < 256; }

} // namespace

template <class T>
void Pooling::operator()(const Run &run, const T *x, T *y) const {
  overChannels(run, Channels(fields.output),
               Pool<T, uint8_t>{Windows(fields), modeOf(fields), x, y, nullptr});
}

template <class T>
void Pooling::operator()(const Run &run, const T *x, T *y, void *positions) const {
  const Windows w(fields);
  auto pool = [&](auto *at) {
    using Position = std::remove_pointer_t<decltype(at)>;
    overChannels(run, Channels(fields.output), Pool<T, Position>{w, modeOf(fields), x, y, at});
  };
  hasBytes(w) ? pool(static_cast<uint8_t *>(positions)) : pool(static_cast<int32_t *>(positions));
}

template <class T>
void PoolingGradient::operator()(const Run &run, const T *dy, T *dx) const {
  overChannels(run, Channels(fields.input),
               PoolGradient<T, uint8_t>{Windows(fields), modeOf(fields), dy, nullptr, dx});
}

template <class T>
void PoolingGradient::operator()(const Run &run, const T *dy, const void *positions,
                                 T *dx) const {
  const Windows w(fields);
  auto gather = [&](const auto *at) {
    using Position = std::remove_cv_t<std::remove_pointer_t<decltype(at)>>;
    overChannels(run, Channels(fields.input),
                 PoolGradient<T, Position>{w, modeOf(fields), dy, at, dx});
  };
  hasBytes(w) ? gather(static_cast<const uint8_t *>(positions))
              : gather(static_cast<const int32_t *>(positions));
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
