#pragma once

#include "passes/AttentionHeads.h"

namespace pdc {

/// Numbers that are added to scores, or flags without which another number stands there.
struct ScoreMask {
  mlir::Value value;
  llvm::SmallVector<int64_t, 5> scoresShape; ///< of what it is told for
  /// By what the sums are multiplied before the softmax, and, where it is below 0, whether the mask
  /// is taken away from them.
  double factor = 1;
  double hidden = -std::numeric_limits<double>::infinity(); ///< where flags hide, before the factor
  bool isInverted = false; ///< of flags: whether they say what is hidden
  bool isUnderTemperature = false;

  bool isFlags() const { return mlir::getElementTypeOrSelf(value).isInteger(1); }
};

/// What a SoftmaxAttention is told of masks, in which hidden scores are minus infinity.
struct AttentionMasks {
  llvm::SmallVector<ScoreMask, 2> joined; ///< but for that of a past
  std::optional<int64_t> past;
  /// Flags that may hide whole rows, by a finite number, whatever `joined` adds before: such a row
  /// has equal shares of all keys.
  std::optional<ScoreMask> sharing;
  bool mayHideRows = false;
  bool hidesLater = false; ///< whether no query is known to see a key behind its own place
};

/// What masks, from the softmax back, are together; nothing where an attention would compute
/// something else.
std::optional<AttentionMasks> togetherOf(mlir::ArrayRef<ScoreMask> masks, ConstantMasks &constants);

/// What a mask says without being repeated and, of one that adds 0 or hides for good: what is seen.
mlir::Value behindRepetition(mlir::Value mask);

} // namespace pdc
