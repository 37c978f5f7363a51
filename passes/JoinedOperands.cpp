#include "passes/Composites.h"

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace pdc {

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

/// The last two or all of queries, keys and values, as the parts of a Split.
class Joined {
public:
  Joined(NodeOp attention, size_t first)
      : first(first),
        rowsFirst(toAttributes(attention.getOnnxAttributes()).integers("rows_first").at(first)) {
    const std::vector<int64_t> all =
        toAttributes(attention.getOnnxAttributes()).integers("rows_first");
    for (size_t i = first; i < 3; ++i)
      if (all.at(i) == rowsFirst)
        operands.push_back(attention.getOperand(i));
    if (operands.size() == 3 - first)
      find();
  }

  /// Null where they are no whole Split.
  explicit operator bool() const { return whole != nullptr; }
  Value tensor() const { return whole; }
  ArrayRef<Value> parts() const { return operands; }
  /// Of so many samples, which the heads are of, each has its own three parts:
  /// nn.MultiheadAttention takes them together. 1: the attention's own samples.
  int64_t samples() const { return samplesWithin; }
  /// All heads behind one another.
  std::vector<int64_t> shape() const {
    std::vector<int64_t> shape(shapeOf(operands[0]));
    for (Value operand : ArrayRef(operands).drop_front())
      shape[headsAt()] += shapeOf(operand)[headsAt()];
    return shape;
  }
  int64_t headsOfKeys() const { return shapeOf(operands[first == 0])[headsAt()]; }

private:
  size_t headsAt() const { return rowsFirst == 0 ? 1 : 2; }

  void find() {
    NodeOp split = wholeSplit();
    if (!split || split.getNumOperands() == 0 || shapeOf(split.getOperand(0)).empty())
      return;
    const int64_t rank = int64_t(shapeOf(split.getOperand(0)).size());
    const int64_t axis = axisOf(split);
    const bool dividesHeads = llvm::all_of(operands, asPart) && axis == int64_t(headsAt());
    if (dividesHeads || (axis == rank - 1 && rowsFirst != 0 && dividesRows()))
      whole = split.getOperand(0);
  }

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
    return a[0] == b[0] && a[3 - headsAt()] == b[3 - headsAt()] && a[3] == b[3];
  }

  /// Whether a row of a part has all heads of a sample, or of one of several that are together.
  bool dividesRows() {
    samplesWithin = 0;
    for (Value operand : operands) {
      ArrayRef<int64_t> shape = shapeOf(operand), part = shapeOf(partBehind(operand));
      const int64_t heads = shape[2];
      if (part.empty() || part.back() == 0 || heads * shape[3] % part.back() != 0)
        return false;
      const int64_t samples = heads * shape[3] / part.back();
      if (heads % samples != 0 || (samplesWithin != 0 && samples != samplesWithin))
        return false;
      samplesWithin = samples;
    }
    return samplesWithin == 1 || (rowsFirst == 1 && shapeOf(operands[0])[0] == 1);
  }

  size_t first;
  int64_t rowsFirst;
  SmallVector<Value> operands;
  Value whole;
  int64_t samplesWithin = 1;
};

/// Puts an attention that reads one tensor in an attention's place.
class Joiner {
public:
  Joiner(NodeOp attention, const Joined &joined, size_t first, NodeNames &names)
      : attention(attention), joined(joined), first(first), names(names), builder(attention),
        operands(attention.getOperands()), attributes(toAttributes(attention.getOnnxAttributes())) {
  }

  void join() {
    const int64_t samples = joined.samples();
    std::vector<int64_t> rowsFirst = attributes.integers("rows_first");
    if (first == 0)
      attributes.set("key_heads", joined.headsOfKeys() / samples);
    operands[first] = under(joined.tensor(), apart(joined.shape(), rowsFirst[first]), "/joined");
    for (size_t i = first + 1; i < 3; ++i)
      operands[i] = createAbsent(builder, attention.getLoc());
    if (samples > 1) {
      if (first == 1)
        operands[0] = under(operands[0], apart(shapeOf(operands[0]), rowsFirst[0]), "/headed");
      if (operands.size() > 3 && shapeOf(operands[3]).size() > 2)
        operands[3] = under(operands[3], maskApart(shapeOf(operands[3])), "/headed");
      for (int64_t &order : rowsFirst)
        order = order == 0 ? 0 : 2;
      attributes.set("rows_first", rowsFirst);
    }
    if (operands.size() == 3)
      operands.truncate(first + 1);
    replace();
  }

private:
  /// The heads of one sample, or a mask's, as those of several.
  std::vector<int64_t> apart(std::vector<int64_t> shape, int64_t rowsFirst) const {
    const int64_t samples = joined.samples();
    if (samples == 1)
      return shape;
    shape[rowsFirst == 0 ? 1 : 2] /= samples;
    if (rowsFirst == 1)
      std::swap(shape[0], shape[1]);
    shape[rowsFirst == 0 ? 0 : 1] = samples;
    return shape;
  }
  std::vector<int64_t> maskApart(std::vector<int64_t> shape) const {
    shape.insert(shape.begin(), 4 - shape.size(), 1);
    return shape[1] == 1 ? shape : apart(shape, 0);
  }

  Value under(Value value, const std::vector<int64_t> &shape, StringRef suffix) {
    return inShape(builder, attention, suffix, value, shape, names);
  }

  void replace() {
    const std::string name = attention.getName().str();
    NodeOp made = createNode(builder, attention.getLoc(), attention.getOp(), name, operands,
                             attributes, "", attention.getNumResults());
    Value old = attention.getResult(0);
    old.replaceAllUsesWith(under(made.getResult(0), shapeOf(old).vec(), "/Reshape"));
    if (joined.samples() == 1)
      for (auto [of, by] : llvm::zip_equal(attention.getResults(), made.getResults()))
        of.replaceAllUsesWith(by);
    attention.erase();
  }

  NodeOp attention;
  const Joined &joined;
  size_t first;
  NodeNames &names;
  OpBuilder builder;
  SmallVector<Value> operands;
  Attributes attributes;
};

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
    const Joined joined(attention, first);
    if (!joined || (joined.samples() > 1 && !attention.getResult(1).use_empty()))
      continue;
    Joiner(attention, joined, first, names).join();
    eraseUnread(joined.parts());
    return;
  }
}

} // namespace pdc
