#pragma once

#include "passes/AttentionHeads.h"

namespace pdc {

/// Numbers that are added to scores, or flags, without which they are minus infinity.
struct ScoreMask {
  mlir::Value value;
  llvm::SmallVector<int64_t, 5> scores = {}; ///< shape of what it is told for
  double factor = 1;                         ///< of numbers
  bool isInverted = false;                   ///< of flags: whether they say what is hidden
  bool isFinite = false;                     ///< of flags: whether a finite number hides
  bool everyRowSees = false;                 ///< whether it is known to let each query see a key
  bool hidesLater = false; ///< whether it is known to show no query a key behind its own place

  bool isFlags() const;
  /// Whether flags do, or numbers may be as low as those that exporters hide keys by: no sums of
  /// weights are, nor what is made of products and normalised rows.
  bool mayHide() const;
};

/// All masks of an attention as one.
class JoinedMasks {
public:
  /// `order`: how [batch, heads, rows, width] lie in queries.
  JoinedMasks(ir::NodeOp root, const ScoreHeads &heads, mlir::ArrayRef<int64_t> order,
              NodeNames &names)
      : root(root), heads(heads), order(order), names(names) {}

  /// Before `root`; null where there is none.
  mlir::Value join(mlir::ArrayRef<ScoreMask> masks);
  /// Where the first, of flags, hides by a finite number, and others add numbers: the mask and
  /// queries with which rows of which the flags show nothing have equal shares of all keys. They
  /// see all by a query of zeros, for which each score is 0 and which passes no gradient on, as
  /// nothing does whose score a number has replaced.
  std::pair<mlir::Value, mlir::Value> joinSharingEqually(mlir::ArrayRef<ScoreMask> masks,
                                                         mlir::Value queries);

private:
  mlir::Value add(mlir::StringRef op, mlir::StringRef suffix, mlir::ValueRange operands,
                  const Attributes &attributes = {});
  mlir::Value number(mlir::StringRef suffix, mlir::Value like, double value);
  mlir::Value cast(mlir::Value value, ElementType element);
  /// Whether as many of each take turns, or none do.
  bool takeTurnsAlike(mlir::ArrayRef<ScoreMask> masks) const;
  /// Those of one kind.
  mlir::Value joined(mlir::ArrayRef<ScoreMask> masks, bool areFlags);
  mlir::Value of(const ScoreMask &mask);
  mlir::Value hidden(mlir::Value seen, mlir::Value numbers);
  mlir::Value zeroed(mlir::Value queries, mlir::Value sees);

  ir::NodeOp root;
  const ScoreHeads &heads;
  mlir::ArrayRef<int64_t> order;
  NodeNames &names;
  bool inTurn = false;
};

} // namespace pdc
