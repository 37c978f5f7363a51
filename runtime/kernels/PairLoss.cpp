#include "runtime/kernels/PairLoss.h"

#include "runtime/Error.h"
#include "runtime/kernels/Elementwise.h"
#include "runtime/kernels/Exponential.h"
#include "runtime/kernels/Logarithm.h"
#include "runtime/kernels/PairLossGradient.h"

#include <cmath>
#include <string_view>

namespace pdc::runtime {

namespace {

struct Squared {
  static double loss(double x, double t) { return (x - t) * (x - t); }
  static float gradient(float x, float t) { return 2 * (x - t); }
};
struct Absolute {
  static double loss(double x, double t) { return std::abs(x - t); }
  static float gradient(float x, float t) { return x > t ? 1.0f : x < t ? -1.0f : 0.0f; }
};
/// -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)) without overflow. The logarithm is good to f32,
/// what may cancel is in f64.
struct BinaryCrossEntropy {
  static double loss(float x, float t) {
    const double above = x < 0 ? 0 : x;
    return above - static_cast<double>(x) * t + logarithmOfOneMore(exponential(-std::abs(x)));
  }
  static float gradient(float x, float t) { return 1 / (1 + exponential(-x)) - t; }
};

/// In as many sums as make vectors, whose order depends on nothing but the count.
template <class Pair>
void sumLoss(const Run &, int64_t count, const float *prediction, const float *target,
             float *loss) {
  constexpr int64_t lanes = 32;
  double sums[lanes] = {};
  const int64_t whole = count / lanes * lanes;
  for (int64_t i = 0; i < whole; i += lanes)
#pragma omp simd
    for (int64_t lane = 0; lane < lanes; ++lane)
      sums[lane] += Pair::loss(prediction[i + lane], target[i + lane]);
  for (int64_t i = whole; i < count; ++i)
    sums[0] += Pair::loss(prediction[i], target[i]);
  for (int64_t lane = 1; lane < lanes; ++lane)
    sums[0] += sums[lane];
  *loss = static_cast<float>(sums[0]);
}

template <class Pair>
void gradient(const Run &run, int64_t count, const float *prediction, const float *target, float dy,
              float *dx) {
  elementwise(
      run, count, [dy](float x, float t) { return dy * Pair::gradient(x, t); }, dx, prediction,
      target);
}

template <class Choose> auto chooseKind(const char *kind, Choose choose) {
  std::string_view name = kind;
  if (name == "MeanSquaredError")
    return choose(Squared());
  if (name == "MeanAbsoluteError")
    return choose(Absolute());
  if (name == "BinaryCrossEntropyWithLogits")
    return choose(BinaryCrossEntropy());
  throw Error("no kernel for loss '", name, "'");
}

} // namespace

PairLoss::PairLoss(const Device &, const PairLossFields &f)
    : fields(f), call(chooseKind(f.kind, []<class Pair>(Pair) { return &sumLoss<Pair>; })) {}

PairLossGradient::PairLossGradient(const Device &, const PairLossFields &f)
    : fields(f), call(chooseKind(f.kind, []<class Pair>(Pair) { return &gradient<Pair>; })) {}

} // namespace pdc::runtime
