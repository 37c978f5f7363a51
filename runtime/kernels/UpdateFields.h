#pragma once

#include "runtime/Program.h"

#include <cstdint>

namespace pdc::runtime {

/// PyTorch 1.13's optimizers over `count` elements in any layout, padding included: zero stays
/// zero. The summed gradient is multiplied by `scale` (1 / total loss weight, clipping). Results
/// may be the operands' own memory. Scalars are read when the kernel runs. Steps count from
/// `first_step`.
struct SgdUpdateFields {
  int64_t count = 0;
  double weight_decay = 0;
};

struct MomentumUpdateFields {
  int64_t count = 0;
  double dampening = 0;
  double first_step = 1;
  double momentum = 0.9;
  int64_t nesterov = 0;
  double weight_decay = 0;
};

struct AdagradUpdateFields {
  int64_t count = 0;
  double epsilon = 1e-10;
  double first_step = 1;
  double lr_decay = 0;
  double weight_decay = 0;
};

struct AdamUpdateFields {
  double beta1 = 0.9;
  double beta2 = 0.999;
  int64_t count = 0;
  /// 1, 2: weight decay shrinks the weight before or after the update. 3: the result is what LAMB
  /// scales and subtracts, weight decay being part of it, in place of the weight.
  int64_t decoupled = 0;
  double epsilon = 1e-8;
  double first_step = 1; ///< below 1 a step has no bias correction
  double post_decay = 0; ///< shrinks the updated weight
  int64_t scaled_epsilon = 0; ///< 1: epsilon stands outside of the bias correction
  double weight_decay = 0;
};

} // namespace pdc::runtime
