#pragma once

#include "passes/ScoreMasks.h"

namespace pdc {

/// A factor for all rows and keys of a head, as Swin v2 and XCiT train it.
struct ScoreTemperature {
  mlir::Value value;
  bool divides = false;
  llvm::SmallVector<int64_t, 5> scores = {}; ///< shape of what it is told for
};

/// What is done to the products of queries and keys before their softmax.
struct Scores {
  ir::NodeOp product;
  /// Dimensions before the last two, where there are the most of them: views divide them.
  llvm::SmallVector<int64_t, 3> leading;
  double scale = 1;
  std::optional<ScoreTemperature> temperature;
  llvm::SmallVector<ScoreMask, 2> masks; ///< from the softmax back, but for that of a past
  std::optional<int64_t> past;
  bool hidesPastFinitely = false; ///< whether a finite number is added where `past` hides
  /// Whether a finite number stands where the first mask, which may hide rows, hides: those have
  /// equal shares of all keys, whatever their scores were.
  bool sharesEqually = false;

  void addForm(mlir::ArrayRef<int64_t> shape);
  /// A finite number that hides does so for good where every row sees another key: not where
  /// another mask may hide that, for then the scores would spread over the row's keys.
  bool isExact() const;
  bool mayHideRows() const {
    return !masks.empty() && (past || masks.size() > 1 || !masks[0].everyRowSees);
  }
  bool hidesLater() const { return masks.size() == 1 && masks[0].hidesLater; }
};

/// Reads scores, which so many uses read, back to the product; nothing where something else is done
/// to them.
std::optional<Scores> scoresBehind(mlir::Value value, unsigned uses, ConstantMasks &masks);

/// What a view reads that leaves the last two dimensions as they are; else null.
mlir::Value viewedRows(mlir::Value value);

} // namespace pdc
