#pragma once

#include "runtime/Program.h"

#include <cstdint>

namespace pdc::runtime {

/// PyTorch 1.13's optimizers over `count` elements in any layout, padding included: zero stays
/// zero. The summed gradient is multiplied by `scale` (1 / total loss weight, clipping). Results
/// may be the operands' own memory. Scalars are read when the kernel runs.
struct SgdUpdateFields {
  int64_t count = 0;
  double weight_decay = 0;
};

struct MomentumUpdateFields {
  int64_t count = 0;
  double dampening = 0;
  double momentum = 0.9;
  int64_t nesterov = 0;
  double weight_decay = 0;
};

struct AdamUpdateFields {
  double beta1 = 0.9;
  double beta2 = 0.999;
  int64_t count = 0;
  int64_t decoupled = 0; ///< weight decay shrinks the weight (AdamW) instead of being gradient
  double epsilon = 1e-8;
  double weight_decay = 0;
};

} // namespace pdc::runtime
