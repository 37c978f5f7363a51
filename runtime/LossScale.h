#pragma once

#include <cmath>
#include <cstdint>

namespace pdc::runtime {

/// By what the mean loss is multiplied so that gradients of 16 bits keep their digits (fp16). It
/// falls when a gradient overflows, which leaves the update out, and grows when long none has: the
/// rule and the numbers of PyTorch's GradScaler.
struct LossScale {
  static constexpr double kFirst = 65536, kLargest = 0x1p100;
  static constexpr int64_t kGrowthSteps = 2000;

  double value = kFirst;
  int64_t goodSteps = 0;   ///< since it last changed
  int64_t leftOut = 0;     ///< updates, in all
  bool overflowed = false; ///< in the last step
  bool halved = false;     ///< behind it
  /// About the loss weight of a minibatch: what is differentiated is the sum of the losses, and the
  /// weight is known behind it only. A power of two, which rounds nothing; 0: not known yet.
  double divisor = 0;

  /// By what the sum of the losses is multiplied.
  double factor() const { return divisor > 0 ? value / divisor : value; }

  void expectWeight(double weight) {
    if (weight > 0)
      divisor = std::exp2(std::ceil(std::log2(weight)));
  }

  /// Where less weight was expected than came (by class weights, say), what overflowed was larger
  /// than the value means.
  void endStep(bool hasOverflow, double weight) {
    const double before = divisor;
    expectWeight(weight);
    overflowed = hasOverflow;
    leftOut += hasOverflow;
    goodSteps = hasOverflow ? 0 : goodSteps + 1;
    halved = hasOverflow && before >= divisor;
    if (halved)
      value /= 2;
    if (goodSteps == kGrowthSteps)
      value = value < kLargest ? 2 * value : value, goodSteps = 0;
  }
};

} // namespace pdc::runtime
