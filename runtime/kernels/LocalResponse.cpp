#include "runtime/kernels/LocalResponse.h"

#include "runtime/kernels/LocalResponseGradient.h"
#include "runtime/kernels/Power.h"
#include "runtime/kernels/StridedWalk.h"

#include <algorithm>
#include <cmath>

namespace pdc::runtime {

namespace {

int64_t pixelsOf(std::span<const int64_t> shape) { return product(shape.subspan(2)); }

/// base ^ -beta; the usual exponent needs no power function.
float inversePower(float base, float beta) {
  if (beta == 0.75f)
    return 1 / (std::sqrt(base) * std::sqrt(std::sqrt(base)));
  return power(base, -beta);
}

/// out[p] = sum over channels c - before .. c + after of value(channel, p).
template <class Value>
void sumWindow(int64_t channels, int64_t pixels, int64_t c, int64_t before, int64_t after,
               float *out, Value value) {
  std::fill_n(out, pixels, 0.0f);
  for (int64_t d = std::max<int64_t>(0, c - before); d <= std::min(channels - 1, c + after); ++d)
#pragma omp simd
    for (int64_t p = 0; p < pixels; ++p)
      out[p] += value(d * pixels + p);
}

} // namespace

LocalResponse::LocalResponse(const Device &device, const LocalResponseFields &f)
    : fields(f), batch(f.input[0]), channels(f.input[1]), pixels(pixelsOf(f.input)),
      threads(device.threads) {}

void LocalResponse::operator()(const Run &, const float *x, float *y) {
  const int64_t before = (fields.size - 1) / 2, after = fields.size - 1 - before;
  const float factor = static_cast<float>(fields.alpha / fields.size);
  const float bias = static_cast<float>(fields.bias), beta = static_cast<float>(fields.beta);
#pragma omp parallel for collapse(2) schedule(static) num_threads(threads)
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t c = 0; c < channels; ++c) {
      const float *image = x + n * channels * pixels, *own = image + c * pixels;
      float *to = y + (n * channels + c) * pixels;
      sumWindow(channels, pixels, c, before, after, to,
                [=](int64_t i) { return image[i] * image[i]; });
#pragma omp simd
      for (int64_t p = 0; p < pixels; ++p)
        to[p] = own[p] * inversePower(bias + factor * to[p], beta);
    }
}

LocalResponseGradient::LocalResponseGradient(const Device &device, const LocalResponseFields &f)
    : fields(f), batch(f.input[0]), channels(f.input[1]), pixels(pixelsOf(f.input)),
      threads(device.threads) {}

/// dx_i = dy_i base_i^-beta - 2 alpha beta / size x_i sum over j with i in j's window of
/// dy_j y_j / base_j. Workspace holds base and dy y / base.
void LocalResponseGradient::operator()(const Run &run, const float *dy, const float *x,
                                       const float *y, float *dx) {
  const int64_t before = (fields.size - 1) / 2, after = fields.size - 1 - before;
  const float factor = static_cast<float>(fields.alpha / fields.size);
  const float bias = static_cast<float>(fields.bias), beta = static_cast<float>(fields.beta);
  const int64_t elements = batch * channels * pixels;
  float *base = reinterpret_cast<float *>(run.scratchBase), *ratio = base + elements;
#pragma omp parallel num_threads(threads)
  {
#pragma omp for collapse(2) schedule(static)
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t c = 0; c < channels; ++c) {
        const float *image = x + n * channels * pixels;
        const int64_t at = (n * channels + c) * pixels;
        sumWindow(channels, pixels, c, before, after, base + at,
                  [=](int64_t i) { return image[i] * image[i]; });
#pragma omp simd
        for (int64_t i = at; i < at + pixels; ++i) {
          base[i] = bias + factor * base[i];
          ratio[i] = dy[i] * y[i] / base[i];
        }
      }
#pragma omp for collapse(2) schedule(static)
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t c = 0; c < channels; ++c) {
        const float *image = ratio + n * channels * pixels;
        const int64_t at = (n * channels + c) * pixels;
        sumWindow(channels, pixels, c, after, before, dx + at, [=](int64_t i) { return image[i]; });
#pragma omp simd
        for (int64_t i = at; i < at + pixels; ++i)
          dx[i] = dy[i] * inversePower(base[i], beta) - 2 * factor * beta * x[i] * dx[i];
      }
  }
}

} // namespace pdc::runtime
