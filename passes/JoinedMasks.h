#pragma once

#include "passes/AttentionScores.h"

namespace pdc {

/// What is told of scores as one attention reads it; each call adds nodes before `root`. All masks
/// and temperatures have a form by the heads.
class JoinedMasks {
public:
  /// `order`: how [batch, heads, rows, width] lie in queries.
  JoinedMasks(ir::NodeOp root, const ScoreHeads &heads, mlir::ArrayRef<int64_t> order,
              NodeNames &names)
      : root(root), heads(heads), order(order), names(names) {}

  struct Told {
    mlir::Value queries, mask; ///< mask: null where there is none
    int64_t inTurn = 0;        ///< so many masks, which samples take in turn
  };
  /// Queries of four dimensions and a mask. Rows of which `sharing` shows nothing see all by a
  /// query of zeros, for which each score is 0 and which passes no gradient on, as nothing does
  /// whose score a number has replaced.
  Told join(const AttentionMasks &masks, mlir::Value queries);
  /// Queries by which scores are those of the heads' temperatures.
  mlir::Value scaled(const ScoreTemperature &temperature, mlir::Value queries);

private:
  mlir::Value add(mlir::StringRef op, mlir::StringRef suffix, mlir::ValueRange operands,
                  const Attributes &attributes = {});
  mlir::Value number(mlir::StringRef suffix, mlir::Value like, double value);
  mlir::Value cast(mlir::Value value, ElementType element);
  mlir::Value viewed(mlir::StringRef suffix, mlir::Value value, const std::vector<int64_t> &shape);
  /// As many as each mask that is not one for all has, where they are fewer than samples; else 0.
  int64_t turnsOf(const AttentionMasks &masks) const;
  /// Those of one kind.
  mlir::Value joined(const AttentionMasks &masks, bool areFlags, bool inTurn);
  mlir::Value of(const ScoreMask &mask, bool inTurn);
  mlir::Value hidden(mlir::Value seen, mlir::Value numbers);

  ir::NodeOp root;
  const ScoreHeads &heads;
  mlir::ArrayRef<int64_t> order;
  NodeNames &names;
};

} // namespace pdc
