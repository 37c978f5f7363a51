#pragma once

#include "passes/Composites.h"
#include "passes/DimensionFactors.h"

namespace pdc {

/// The dimensions of queries, keys, values and results.
enum AttentionDimension : int64_t { kBatch, kHeads, kRows, kWidth };

/// The orders in which they lie, as attribute `rows_first` numbers them.
inline constexpr int64_t kAttentionOrders[3][4] = {{kBatch, kHeads, kRows, kWidth},
                                                   {kBatch, kRows, kHeads, kWidth},
                                                   {kRows, kBatch, kHeads, kWidth}};

/// Sizes of [batch, heads, rows, width] in one of the orders.
std::vector<int64_t> inOrder(mlir::ArrayRef<int64_t> sizes, mlir::ArrayRef<int64_t> order);

/// With dimensions of size 1 before those of a shape of fewer than four.
std::vector<int64_t> inFour(mlir::ArrayRef<int64_t> shape);

/// How the dimensions before the last two of scores are divided.
struct ScoreHeads {
  int64_t batch = 1, heads = 1;

  /// The last is that of heads; a single one, too, for no other form tells how many samples it has.
  explicit ScoreHeads(mlir::ArrayRef<int64_t> leading);

  int64_t all() const { return batch * heads; }
  /// Shapes by which what broadcasts to scores of these heads is [batch, heads, rows, keys], each
  /// of which may be 1 and, where samples may take it `inTurn`, the first a divisor. Nothing where
  /// a dimension of the scores is some of the heads of all samples.
  struct Form {
    std::vector<int64_t> repeated, viewed;
  };
  std::optional<Form> form(mlir::ArrayRef<int64_t> shape, mlir::ArrayRef<int64_t> scores,
                           bool inTurn) const;
  /// A value that has such a form in it, before `root`.
  mlir::Value broadcast(ir::NodeOp root, mlir::StringRef suffix, mlir::Value value,
                        mlir::ArrayRef<int64_t> scores, bool inTurn, NodeNames &names) const;
};

/// Queries, keys or values as the operator reads them, whatever the value's own shape is.
struct HeadedRows {
  mlir::Value value;
  int64_t rowsFirst;
  double scale;
  DimensionFactors::Sizes sizes; ///< of [batch, heads, rows, width]

  std::vector<int64_t> shape() const;
  bool isAsItIs() const { return shapeOf(value) == mlir::ArrayRef(shape()); }
};

/// The last value behind an operand of a product, through what only moves or scales its elements,
/// that the operator can read, the nearest of its views; nothing where there is none. `isTurned`:
/// of the last two dimensions the other comes first. `sharesHeads`: heads may be repeated.
std::optional<HeadedRows> headedRowsBehind(mlir::Value operand, const ScoreHeads &heads,
                                           bool isTurned, bool sharesHeads);

/// The last product, and what of its result is moved: `root`, or the product that it transposes.
struct MixedValues {
  ir::NodeOp product;
  ir::NodeOp transposition; ///< of the result or of a view of it; null: none

  static MixedValues behind(ir::NodeOp root);
  /// How what `root` makes lies in memory, as attribute `rows_first` numbers it.
  std::optional<int64_t> order(const ScoreHeads &heads) const;
};

} // namespace pdc
