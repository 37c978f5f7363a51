#pragma once

#include "runtime/kernels/Lanes.h"

namespace pdc::runtime {

/// The sum of value(0) to value(pixels - 1), in four running sums that hide each other's latency.
template <class Value> auto sumPixels(int64_t pixels, Value value) {
  using V = decltype(value(0));
  V sums[4] = {};
  int64_t p = 0;
  for (; p + 4 <= pixels; p += 4)
    for (int k = 0; k < 4; ++k)
      sums[k] += value(p + k);
  for (; p < pixels; ++p)
    sums[0] += value(p);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// Mean and sum of squared deviations per lane. What is added at once is summed in f32 around its
/// own mean while it is in cache; these are merged in f64.
template <int L> class LaneStatistics {
public:
  using V = typename Lanes<L>::Vector;

  /// Pixels lie L elements apart.
  void add(const float *x, int64_t pixels) {
    V sum = sumPixels(pixels, [=](int64_t p) { return Lanes<L>::load(x + p * L); });
    V center = sum / static_cast<float>(pixels);
    V squares = sumPixels(pixels, [=](int64_t p) {
      V d = Lanes<L>::load(x + p * L) - center;
      return d * d;
    });
    merge(center, squares, static_cast<double>(pixels));
  }

  double pixels = 0;
  double mean[L] = {}, deviations[L] = {};

private:
  void merge(V center, V squares, double more) {
    const double share = more / (pixels + more), weight = pixels * share;
    for (int i = 0; i < L; ++i) {
      double delta = center[i] - mean[i];
      mean[i] += delta * share;
      deviations[i] += squares[i] + delta * delta * weight;
    }
    pixels += more;
  }
};

} // namespace pdc::runtime
