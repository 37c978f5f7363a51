#include "passes/Composites.h"

#include "compiler/operators/Rules.h"

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

int64_t rowsOf(Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  return shape.empty() ? 0 : product(shape.drop_back().vec());
}

/// Whether each row of the node's result is made of the same row of that operand, and of what is
/// the same for all: a product with a matrix, or a sum with a row.
bool isRowWise(NodeOp node, unsigned operand) {
  const Attributes attributes = toAttributes(node.getOnnxAttributes());
  if (node.getOp() == "Add")
    return rowsOf(node.getOperand(1 - operand)) == 1 &&
           node->getResult(0).getType() == node.getOperand(operand).getType();
  const bool isGemm = node.getOp() == "Gemm";
  if (!isGemm && node.getOp() != "MatMul" && node.getOp() != "FusedMatMul")
    return false;
  return operand == 0 && attributes.integer("transA", 0) == 0 &&
         shapeOf(node.getOperand(1)).size() == 2 &&
         (!isGemm || node.getNumOperands() < 3 || rowsOf(node.getOperand(2)) == 1);
}

/// Layers that work on rows, one after another, whatever views lie between, and a transposition of
/// rows and samples before or behind them. Nobody else reads what is made within.
class RowLayers {
public:
  RowLayers(int64_t samples, int64_t rows) : samples(samples), rows(rows) {}

  /// What the transposition before the layers that make `value` reads; null where there is none.
  Value behind(Value value) {
    while (auto node = value.getDefiningOp<NodeOp>()) {
      if (node.getOp() == "Transpose") {
        std::reverse(layers.begin(), layers.end());
        return turns(node, {rows, samples}) ? node.getOperand(0) : Value();
      }
      const std::optional<unsigned> operand = value.hasOneUse() ? take(node, {}) : std::nullopt;
      if (!operand)
        break;
      value = node.getOperand(*operand);
    }
    return {};
  }

  /// The transposition behind the layers that read `value`; null where there is none.
  NodeOp ahead(Value value) {
    while (value.hasOneUse()) {
      auto node = dyn_cast<NodeOp>(*value.user_begin());
      if (node && node.getOp() == "Transpose")
        return turns(node, {samples, rows}) ? node : NodeOp();
      if (!node || !take(node, value))
        break;
      value = node->getResult(0);
    }
    return {};
  }

  /// Lets the layers read `value` and work in its order; what they make.
  Value readFrom(Value value, NodeNames &names) {
    for (auto [node, operand] : layers) {
      const int64_t width = shapeOf(node.getOperand(operand)).back();
      OpBuilder builder(node);
      if (shapeOf(value).back() != width || (node.getOp() == "Gemm" && shapeOf(value).size() != 2))
        value = reshaped(builder, node, names.unique(node.getName() + "/rows"), value,
                         {samples * rows, width}, names);
      Value before = node.getOperand(operand);
      node->setOperand(operand, value);
      eraseUnread(before);
      value = node->getResult(0);
      value.setType(toMlir(node.getContext(), NodeFacts(node).infer()[0]));
    }
    return value;
  }

private:
  /// Whether it swaps the first two dimensions, so that they are of these sizes.
  static bool turns(NodeOp node, std::array<int64_t, 2> sizes) {
    return permutationOf(node) == std::vector<int64_t>{1, 0, 2} &&
           shapeOf(node->getResult(0)).take_front(2) == ArrayRef(sizes);
  }

  /// Which operand's rows a view or layer takes: those of `value`, or, where that is null, of the
  /// first that has them.
  std::optional<unsigned> take(NodeOp node, Value value) {
    if (isViewNode(node) && (!value || node.getOperand(0) == value))
      return 0;
    for (unsigned i = 0; i < std::min(node.getNumOperands(), 2u); ++i)
      if ((!value || node.getOperand(i) == value) && rowsOf(node.getOperand(i)) == samples * rows &&
          isRowWise(node, i)) {
        layers.emplace_back(node, i);
        return i;
      }
    return std::nullopt;
  }

  int64_t samples, rows;
  SmallVector<std::pair<NodeOp, unsigned>> layers; ///< each reads the one before
};

/// Samples before rows, both before the heads: [samples, rows, heads, width].
std::vector<int64_t> samplesFirst(Value value) {
  std::vector<int64_t> shape(shapeOf(value));
  std::swap(shape[0], shape[1]);
  return shape;
}

class SamplesFirst {
public:
  SamplesFirst(NodeOp attention, NodeNames &names)
      : attention(attention), names(names),
        rowsFirst(toAttributes(attention.getOnnxAttributes()).integers("rows_first")) {}

  void apply() {
    if (rowsFirst.size() != 4)
      return;
    for (unsigned i = 0; i < std::min(attention.getNumOperands(), 3u); ++i)
      if (rowsFirst[i] == 2 && shapeOf(attention.getOperand(i)).size() == 4)
        readOperand(i);
    if (rowsFirst[3] == 2)
      makeResult();
  }

private:
  void readOperand(unsigned number) {
    Value operand = attention.getOperand(number);
    const std::vector<int64_t> shape = samplesFirst(operand);
    RowLayers layers(shape[0], shape[1]);
    Value source = layers.behind(operand);
    if (!source || !operand.hasOneUse())
      return;
    Value made = layers.readFrom(source, names);
    OpBuilder builder(attention);
    attention->setOperand(number, inShape(builder, attention, "/samples", made, shape, names));
    for (unsigned i = number; i < 3 && (i == number || isWith(i)); ++i)
      rowsFirst[i] = 1;
    update();
    eraseUnread(operand);
  }

  /// Whether the tensor before it holds an operand, too.
  bool isWith(unsigned number) {
    return attention.getNumOperands() <= number ||
           attention.getOperand(number).getDefiningOp<AbsentOp>();
  }

  void makeResult() {
    Value result = attention->getResult(0);
    const std::vector<int64_t> shape = samplesFirst(result);
    RowLayers layers(shape[0], shape[1]);
    NodeOp turned = layers.ahead(result);
    if (!turned)
      return;
    Value last = turned.getOperand(0);
    rowsFirst[3] = 1;
    update();
    Value made = layers.readFrom(result, names);
    OpBuilder builder(turned);
    turned->getResult(0).replaceAllUsesWith(
        inShape(builder, turned, "/samples", made, shapeOf(turned->getResult(0)).vec(), names));
    turned.erase();
    eraseUnread(last);
  }

  void update() {
    Attributes attributes = toAttributes(attention.getOnnxAttributes());
    attributes.set("rows_first", rowsFirst);
    attention.setOnnxAttributesAttr(toMlir(attention.getContext(), attributes));
    attention->getResult(0).setType(
        toMlir(attention.getContext(), NodeFacts(attention).infer()[0]));
  }

  NodeOp attention;
  NodeNames &names;
  std::vector<int64_t> rowsFirst;
};

} // namespace

namespace pdc {

void readSamplesFirst(NodeOp attention, NodeNames &names) {
  SamplesFirst(attention, names).apply();
}

} // namespace pdc
