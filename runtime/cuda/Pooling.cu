#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Windows.h"

#include <limits>
#include <string_view>

namespace pdc::runtime::cuda {

namespace {

enum class Mode { max, average, averageWithPads };

Mode modeOf(const PoolingFields &f) {
  std::string_view mode = f.mode;
  return mode == "max" ? Mode::max : mode == "average" ? Mode::average : Mode::averageWithPads;
}

/// Element i of y, channels innermost; `positions` may be null.
template <class T, class Position>
__global__ void poolKernel(Windows w, Mode mode, const T *x, T *y, Position *positions) {
  const int64_t i = globalThread();
  if (i >= w.outputElements())
    return;
  const int64_t c = i % w.channels, window = i / w.channels;
  float most = -std::numeric_limits<float>::infinity(), sum = 0;
  int64_t best = 0, inside = 0;
  for (int64_t tap = 0; tap < w.taps(); ++tap) {
    const int64_t pixel = w.pixelOf(window, tap);
    if (pixel < 0)
      continue;
    const float value = float(x[pixel * w.channels + c]);
    ++inside;
    sum += value;
    if (value > most || inside == 1) {
      most = value;
      best = tap;
    }
  }
  if (mode == Mode::max)
    y[i] = T(most);
  else
    y[i] = T(sum / static_cast<float>(mode == Mode::average ? inside : w.taps()));
  if (positions)
    positions[i] = static_cast<Position>(best);
}

/// Element i of dx gathers from every window that holds it: no atomics.
template <class T, class Position>
__global__ void poolGradientKernel(Windows w, Mode mode, const T *dy, const Position *positions,
                                   T *dx) {
  const int64_t i = globalThread();
  if (i >= w.inputElements())
    return;
  const int64_t c = i % w.channels, pixel = i / w.channels;
  float sum = 0;
  for (int64_t tap = 0; tap < w.taps(); ++tap) {
    const int64_t window = w.windowOf(pixel, tap);
    if (window < 0)
      continue;
    const int64_t at = window * w.channels + c;
    if (mode == Mode::max)
      sum += static_cast<int64_t>(positions[at]) == tap ? float(dy[at]) : 0.0f;
    else
      sum += float(dy[at]) / static_cast<float>(mode == Mode::average ? w.inside(window) : w.taps());
  }
  dx[i] = T(sum);
}

bool hasBytes(const Windows &w) { return w.taps() < 256; }

} // namespace

template <class T>
void Pooling::operator()(const Run &run, const T *x, T *y) const {
  const Windows w(fields);
  launchOver(run, w.outputElements(), poolKernel<T, uint8_t>, w, modeOf(fields), x, y, nullptr);
}

template <class T>
void Pooling::operator()(const Run &run, const T *x, T *y, void *positions) const {
  const Windows w(fields);
  if (hasBytes(w))
    launchOver(run, w.outputElements(), poolKernel<T, uint8_t>, w, modeOf(fields), x, y,
               static_cast<uint8_t *>(positions));
  else
    launchOver(run, w.outputElements(), poolKernel<T, int32_t>, w, modeOf(fields), x, y,
               static_cast<int32_t *>(positions));
}

template <class T>
void PoolingGradient::operator()(const Run &run, const T *dy, T *dx) const {
  const Windows w(fields);
  launchOver(run, w.inputElements(), poolGradientKernel<T, uint8_t>, w, modeOf(fields), dy, nullptr,
             dx);
}

template <class T>
void PoolingGradient::operator()(const Run &run, const T *dy, const void *positions,
                                 T *dx) const {
  const Windows w(fields);
  if (hasBytes(w))
    launchOver(run, w.inputElements(), poolGradientKernel<T, uint8_t>, w, modeOf(fields), dy,
               static_cast<const uint8_t *>(positions), dx);
  else
    launchOver(run, w.inputElements(), poolGradientKernel<T, int32_t>, w, modeOf(fields), dy,
               static_cast<const int32_t *>(positions), dx);
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
