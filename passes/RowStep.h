#pragma once

#include "passes/SelectedRows.h"

namespace pdc {

/// `what` is done with the rows, as in "changes the shape of".
[[noreturn]] void refuseRows(ir::NodeOp node, const RowSelection &rows, const std::string &what);

/// Whether both hold for the same rows: exporters write a mask as often as it is used.
bool haveSameMask(const RowSelection &a, const RowSelection &b);

/// What rows that data select become at one node.
class RowStep {
public:
  RowStep(SelectedRows &all, const NodeFacts &facts, ir::NodeOp node, CompositionBuilder &builder,
          bool isPart)
      : all(all), facts(facts), view(facts.view()), node(node), b(builder), isPart(isPart) {}

  /// The values that take the place of the node's results; none where it stays as it is.
  std::vector<NodeValue> run();

private:
  const RowSelection *rowsOf(size_t operand) const;
  /// Of the first operand that has them.
  const RowSelection &rows() const;
  [[noreturn]] void refuse(const std::string &what) const { refuseRows(node, rows(), what); }
  /// Refuses rows of another mask than the first operand's.
  void checkSame(const RowSelection &other) const;
  void keep(const RowSelection &rows);

  // Nodes that compute each row for itself: where the rows lie in their results.
  RowSelection axisOfResults() const;
  RowSelection aligned() const;
  RowSelection reshapedRows() const;
  RowSelection transposedRows() const;
  RowSelection gatheredRows() const;
  RowSelection besideAxes() const;
  void checkAxis(const RowSelection &mine) const;
  bool takesInOrder(int64_t axis) const;

  // Nodes that bring rows together.
  RowSelection joinedRows();
  RowSelection joined(const std::vector<NodeValue> &parts);
  NodeValue allRows(int64_t count);
  void appendFlags(const RowSelection &rows, std::vector<NodeValue> &parts);
  std::vector<NodeValue> reduce();
  std::vector<NodeValue> reduceRows(const std::vector<int64_t> &axes);
  std::vector<NodeValue> multiply();
  std::vector<NodeValue> scatter();
  std::vector<NodeValue> ignoreLabels();
  std::vector<NodeValue> softmaxOfRows();
  int64_t placeInProduct(size_t operand) const;
  NodeValue flagsAlong(const RowSelection &rows);
  NodeValue column(const RowSelection &rows, int64_t rank);
  NodeValue countOf(const RowSelection &rows);
  NodeValue maskedBy(const RowSelection &rows, mlir::Value value, double otherwise);
  NodeValue maskedOperand(size_t operand, double otherwise);
  NodeValue asTheyWere(size_t operand) const;

  // Numbers of rows.
  std::vector<NodeValue> countRows();
  std::vector<NodeValue> followCounts();
  void count(const RowSelection &selected, Tensor factors);
  const RowCount *countIn(size_t operand) const;
  void keepShape(const RowCount &from);
  RowSelection withMore(const RowCount &from);
  RowSelection slicedToEnd(const RowCount &from) const;
  Tensor movedFactors(const RowCount &from) const;
  Tensor factorOfProduct(const RowCount &from) const;
  NodeValue counted(const RowCount &from, const TensorType &type);

  int64_t rankOf(size_t operand) const { return view.input(operand).rank(); }
  TensorType typeOfResult() const { return toTensorType(node.getResult(0).getType()); }
  /// Attribute `axis`, counted from the start of operand 0.
  int64_t axisOf(int64_t otherwise) const;

  SelectedRows &all;
  const NodeFacts &facts;
  const NodeView view;
  mutable ir::NodeOp node; ///< accessors of operations are not const
  CompositionBuilder &b;
  const bool isPart;
};

} // namespace pdc
