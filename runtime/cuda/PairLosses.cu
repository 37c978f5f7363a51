#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Totals.h"

#include "runtime/Error.h"

#include <cmath>
#include <string_view>

namespace pdc::runtime::cuda {

namespace {

struct Squared {
  static PDC_EITHER double loss(double x, double t) { return (x - t) * (x - t); }
  static PDC_EITHER float gradient(float x, float t) { return 2 * (x - t); }
};
struct Absolute {
  static PDC_EITHER double loss(double x, double t) { return fabs(x - t); }
  static PDC_EITHER float gradient(float x, float t) { return x > t ? 1.0f : x < t ? -1.0f : 0.0f; }
};
/// -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)) without overflow.
struct BinaryCrossEntropy {
  static PDC_EITHER double loss(double x, double t) {
    return fmax(x, 0.0) - x * t + log1p(exp(-fabs(x)));
  }
  static PDC_EITHER float gradient(float x, float t) { return 1 / (1 + expf(-x)) - t; }
};

template <class Pair> struct LossOfPair {
  const float *prediction, *target;
  __device__ double operator()(int64_t i) const { return Pair::loss(prediction[i], target[i]); }
};

template <class Pair>
__global__ void pairGradientKernel(int64_t count, const float *prediction, const float *target,
                                   const float *dy, float *dx) {
  const int64_t i = globalThread();
  if (i < count)
    dx[i] = *dy * Pair::gradient(prediction[i], target[i]);
}

template <class Choose> void chooseKind(const char *kind, Choose choose) {
  std::string_view name = kind;
  if (name == "MeanSquaredError")
    choose(Squared());
  else if (name == "MeanAbsoluteError")
    choose(Absolute());
  else if (name == "BinaryCrossEntropyWithLogits")
    choose(BinaryCrossEntropy());
  else
    throw Error("no kernel for loss '", name, "'");
}

} // namespace

void PairLoss::operator()(const Run &run, const float *prediction, const float *target,
                          float *loss) const {
  chooseKind(fields.kind, [&]<class Pair>(Pair) {
    sumAll(run, fields.count, LossOfPair<Pair>{prediction, target}, loss, run.scratchBase);
  });
}

void PairLossGradient::operator()(const Run &run, const float *prediction, const float *target,
                                  const float *dy, float *dx) const {
  chooseKind(fields.kind, [&]<class Pair>(Pair) {
    launchOver(run, fields.count, pairGradientKernel<Pair>, fields.count, prediction, target, dy,
               dx);
  });
}

} // namespace pdc::runtime::cuda
