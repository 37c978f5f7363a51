#pragma once

#include "runtime/cuda/Queues.h"

namespace pdc {

/// What the runtime has to say of a GPU's queues, to those who plan.
inline constexpr int64_t kMostQueues = runtime::cuda::kMostQueues;

constexpr bool haveQueues(int64_t edges, int64_t summedWith) {
  return runtime::cuda::haveQueues(edges, summedWith);
}

} // namespace pdc
