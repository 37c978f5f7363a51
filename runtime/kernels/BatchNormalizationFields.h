#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/Dimensions.h"

namespace pdc::runtime {

/// Normalises each channel of an NC... tensor. One channel block is summed by one thread, images in
/// ascending order, so the bits do not depend on the number of threads.
///
/// Kernels for GPUs do more. Forward: an `addend` comes behind the operands. Gradient: what arrives
/// comes as so many `terms`, which are added up, and a relu of nothing but the normalised image
/// needs no result of its own: with `reluOfImage` the bias stands behind the scale instead. What
/// arrives behind the relu is result 3.
struct BatchNormalizationFields {
  static constexpr int64_t kMostTerms = 4;

  int64_t addend = 0; ///< whether there is an image that is added before the relu
  double epsilon = 1e-5;
  Dimensions input; ///< shape
  const char *layout = "";
  double momentum = 0.9; ///< of the running statistics: what is kept
  int64_t relu = 0;      ///< forward: applied to the result; gradient: passed through first
  int64_t reluOfImage = 0;
  /// For each result pointer of a call, which of the kernel's results it takes. Those that are not
  /// there are not needed.
  Dimensions results{};
  int64_t terms = 1;
};

} // namespace pdc::runtime
