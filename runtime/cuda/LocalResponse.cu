#include "runtime/cuda/Channels.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Launch.h"

#include <cmath>

namespace pdc::runtime::cuda {

namespace {

/// The window runs over neighbouring channels, which lie next to each other.
struct Response {
  int64_t channels, before, after;
  float factor, bias, beta;

  explicit Response(const LocalResponseFields &f)
      : channels(f.input[1]), before((f.size - 1) / 2), after(f.size - 1 - before),
        factor(static_cast<float>(f.alpha / f.size)), bias(static_cast<float>(f.bias)),
        beta(static_cast<float>(f.beta)) {}

  /// bias + alpha / size * sum of squares around element i.
  PDC_EITHER float base(const float *x, int64_t i) const {
    const int64_t c = i % channels, first = i - c;
    float sum = 0;
    for (int64_t d = c > before ? c - before : 0; d <= c + after && d < channels; ++d)
      sum += x[first + d] * x[first + d];
    return bias + factor * sum;
  }
};

__global__ void responseKernel(int64_t elements, Response r, const float *x, float *y) {
  const int64_t i = globalThread();
  if (i < elements)
    y[i] = x[i] * powf(r.base(x, i), -r.beta);
}

/// dx_i = dy_i base_i^-beta - 2 alpha beta / size x_i sum over j with i in j's window of
/// dy_j y_j / base_j.
__global__ void responseGradientKernel(int64_t elements, Response r, const float *dy,
                                       const float *x, const float *y, float *dx) {
  const int64_t i = globalThread();
  if (i >= elements)
    return;
  const int64_t c = i % r.channels, first = i - c;
  float sum = 0;
  for (int64_t d = c > r.after ? c - r.after : 0; d <= c + r.before && d < r.channels; ++d)
    sum += dy[first + d] * y[first + d] / r.base(x, first + d);
  dx[i] = dy[i] * powf(r.base(x, i), -r.beta) - 2 * r.factor * r.beta * x[i] * sum;
}

} // namespace

void LocalResponse::operator()(const Run &run, const float *x, float *y) const {
  const int64_t elements = Channels(fields.input).elements();
  launchOver(run, elements, responseKernel, elements, Response(fields), x, y);
}

void LocalResponseGradient::operator()(const Run &run, const float *dy, const float *x,
                                       const float *y, float *dx) const {
  const int64_t elements = Channels(fields.input).elements();
  launchOver(run, elements, responseGradientKernel, elements, Response(fields), dy, x, y, dx);
}

} // namespace pdc::runtime::cuda
