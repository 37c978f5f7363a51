#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/Dimensions.h"

namespace pdc::runtime {

/// Normalises neighbouring channels of an NC... tensor together, each sample by itself, then scales
/// and shifts each channel. No bits depend on the number of threads.
struct GroupNormalizationFields {
  double epsilon = 1e-5;
  int64_t groups = 1;
  Dimensions input; ///< shape
  const char *layout = "";
  /// For each result pointer of a call, which of the kernel's results it takes.
  Dimensions results{};
  int64_t swish = 0; ///< what is made of a shifted y is y sigmoid(y)
};

} // namespace pdc::runtime
