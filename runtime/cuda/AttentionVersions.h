#pragma once

#include "runtime/kernels/AttentionFields.h"

#include <cstddef>
#include <limits>

/// What is known of the attention of versions of cuDNN, as cudnnGetVersion says them.
namespace pdc::runtime::cuda {

/// Whether it is right. 9.10.0 and 9.10.1 are known for wrong results. Before 9.15.1 gradients read
/// memory that is not theirs when they are replayed as a graph, as tasks are, unless the keys come
/// in whole tiles or the library is told of padding, as here it is not (cudnn-frontend 1.16).
/// Gradients of masks of any shape came with 9.18.
inline bool isTrusted(size_t version, const AttentionFields &f, bool isGradient) {
  constexpr int64_t kTile = 128;
  if (version == 91000 || version == 91001)
    return false;
  if (isGradient && f.keys % kTile != 0 && version < 91501)
    return false;
  return version >= 91800 || !f.makesMaskGradient();
}

/// Of a score that is not seen. Before 9.10 the library computes with the smallest number.
inline float hiddenScoreOf(size_t version) {
  return version < 91000 ? std::numeric_limits<float>::lowest()
                         : -std::numeric_limits<float>::infinity();
}

} // namespace pdc::runtime::cuda
