#include "runtime/kernels/PairLoss.h"

#include "runtime/Error.h"
#include "runtime/kernels/Elementwise.h"
#include "runtime/kernels/PairLossGradient.h"

#include <algorithm>
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
/// -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)) without overflow.
struct BinaryCrossEntropy {
  static double loss(double x, double t) {
    return std::max(x, 0.0) - x * t + std::log1p(std::exp(-std::abs(x)));
  }
  static float gradient(float x, float t) { return 1 / (1 + std::exp(-x)) - t; }
};

template <class Pair>
void sumLoss(const Run &, int64_t count, const float *prediction, const float *target,
             float *loss) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += Pair::loss(prediction[i], target[i]);
  *loss = static_cast<float>(sum);
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
