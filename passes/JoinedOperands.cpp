#include "passes/Composites.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace pdc {

Value reshaped(OpBuilder &builder, NodeOp root, StringRef name, Value value,
               const std::vector<int64_t> &shape, NodeNames &names) {
  auto add = [&](StringRef op, const std::string &as, ValueRange operands, Attributes attributes) {
    return createNode(builder, root.getLoc(), op, as, operands, attributes)->getResult(0);
  };
  Value sizes =
      add("Constant", names.unique(name + "/shape"), {}, {{"value", pdc::Tensor::vector(shape)}});
  return add("Reshape", name.str(), {value, sizes}, {});
}

namespace {

/// The value as a part of a Split, or null.
OpResult asPart(Value value) {
  auto node = value.getDefiningOp<NodeOp>();
  return node && node.getOp() == "Split" ? cast<OpResult>(value) : OpResult();
}

/// The part of a Split that an operand is, under whatever shape; nobody else reads it.
OpResult partBehind(Value operand) {
  while (operand.hasOneUse()) {
    NodeOp reshape = maker(operand, "Reshape");
    if (!reshape)
      return asPart(operand);
    operand = reshape.getOperand(0);
  }
  return {};
}

/// Where the heads of operands are: dimension 2 behind rows, or 1 before them.
struct Joined {
  NodeOp attention;
  SmallVector<Value> operands; ///< the last two or all of queries, keys and values
  int64_t headsAt;

  Joined(NodeOp attention, size_t first) : attention(attention) {
    const std::vector<int64_t> rowsFirst =
        toAttributes(attention.getOnnxAttributes()).integers("rows_first");
    headsAt = rowsFirst.at(first) ? 2 : 1;
    for (size_t i = first; i < 3; ++i)
      if (rowsFirst.at(i) == rowsFirst.at(first))
        operands.push_back(attention.getOperand(i));
    if (operands.size() != 3 - first)
      operands.clear();
  }

  /// All heads behind one another; null where they are no whole Split.
  Value tensor(NodeNames &names) {
    NodeOp split = wholeSplit();
    if (!split || split.getNumOperands() == 0 || shapeOf(split.getOperand(0)).empty())
      return {};
    const int64_t rank = int64_t(shapeOf(split.getOperand(0)).size());
    int64_t axis = toAttributes(split.getOnnxAttributes()).integer("axis", 0);
    axis += axis < 0 ? rank : 0;
    if (llvm::all_of(operands, asPart) && axis == headsAt)
      return split.getOperand(0);
    if (axis != rank - 1 || headsAt != 2 || !llvm::all_of(operands, [&](Value operand) {
          ArrayRef<int64_t> part = shapeOf(partBehind(operand));
          return !part.empty() && shapeOf(operand)[2] * shapeOf(operand)[3] == part.back();
        }))
      return {};
    OpBuilder builder(attention);
    return reshaped(builder, attention, names.unique(attention.getName() + "/joined"),
                    split.getOperand(0), shape(), names);
  }

private:
  NodeOp wholeSplit() const {
    NodeOp split;
    for (auto [i, operand] : llvm::enumerate(operands)) {
      OpResult part = partBehind(operand);
      if (!part || part.getResultNumber() != i || shapeOf(operand).size() != 4 ||
          !fits(shapeOf(operand), shapeOf(operands[0])))
        return {};
      auto owner = cast<NodeOp>(part.getOwner());
      if (owner.getNumResults() != operands.size() || (split && owner != split))
        return {};
      split = owner;
    }
    return split;
  }

  /// Equal in all but their heads.
  bool fits(ArrayRef<int64_t> a, ArrayRef<int64_t> b) const {
    return a[0] == b[0] && a[3 - headsAt] == b[3 - headsAt] && a[3] == b[3];
  }

  std::vector<int64_t> shape() const {
    std::vector<int64_t> whole(shapeOf(operands[0]));
    for (Value operand : ArrayRef(operands).drop_front())
      whole[headsAt] += shapeOf(operand)[headsAt];
    return whole;
  }
};

/// Erases the views and the Split behind operands that nobody reads any more.
void eraseUnread(ArrayRef<Value> operands) {
  llvm::SetVector<Operation *> views, splits;
  for (Value operand : operands) {
    NodeOp view = maker(operand, "Reshape");
    for (; view; view = maker(view.getOperand(0), "Reshape")) {
      views.insert(view);
      operand = view.getOperand(0);
    }
    if (OpResult part = asPart(operand))
      splits.insert(part.getOwner());
  }
  for (auto *behind : {&views, &splits})
    for (Operation *op : *behind)
      if (op->use_empty())
        op->erase();
}

/// Whether it reads queries, keys and values each by itself.
bool readsApart(NodeOp attention) {
  return attention.getNumOperands() >= 3 &&
         toAttributes(attention.getOnnxAttributes()).integers("rows_first").size() == 4 &&
         llvm::all_of(attention.getOperands().take_front(3),
                      [](Value operand) { return shapeOf(operand).size() == 4; });
}

} // namespace

void joinOperands(NodeOp attention, NodeNames &names) {
  if (!readsApart(attention))
    return;
  for (size_t first : {0, 1}) {
    Joined joined(attention, first);
    Value tensor = joined.operands.empty() ? Value() : joined.tensor(names);
    if (!tensor)
      continue;
    OpBuilder builder(attention);
    Attributes attributes = toAttributes(attention.getOnnxAttributes());
    if (first == 0)
      attributes.set("key_heads", shapeOf(joined.operands[1])[joined.headsAt]);
    SmallVector<Value> operands(attention.getOperands());
    operands[first] = tensor;
    for (size_t i = first + 1; i < 3; ++i)
      operands[i] = createAbsent(builder, attention.getLoc());
    if (operands.size() == 3)
      operands.truncate(first + 1);
    NodeOp made = createNode(builder, attention.getLoc(), attention.getOp(), attention.getName(),
                             operands, attributes, "", attention.getNumResults());
    attention->replaceAllUsesWith(made->getResults());
    attention.erase();
    eraseUnread(joined.operands);
    return;
  }
}

} // namespace pdc
