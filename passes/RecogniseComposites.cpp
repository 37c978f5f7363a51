#include "passes/Composites.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"

#include <cmath>
#include <numbers>

namespace pdc {
#define GEN_PASS_DEF_RECOGNISECOMPOSITES
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// Exporters write numbers as f32.
bool isNumber(Value value, double expected) {
  std::optional<double> found = numberOf(value);
  return found && std::abs(*found - expected) <= 1e-6 * std::abs(expected);
}

/// The other operand of a node of two, one of which is this number; null where neither is.
Value besides(NodeOp node, double number) {
  if (!node || node.getNumOperands() != 2)
    return {};
  for (int i : {0, 1})
    if (isNumber(node.getOperand(i), number))
      return node.getOperand(1 - i);
  return {};
}

/// A product of several factors, whatever the order and the brackets: its constants are one number.
struct Product {
  double number = 1;
  SmallVector<Value> factors;

  explicit Product(Value value) { multiply(value, true); }

private:
  void multiply(Value value, bool isWhole) {
    NodeOp product = maker(value, "Mul");
    if (std::optional<double> constant = numberOf(value)) {
      number *= *constant;
    } else if (product && (isWhole || value.hasOneUse())) {
      for (Value operand : product.getOperands())
        multiply(operand, false);
    } else if (NodeOp quotient = maker(value, "Div");
               quotient && value.hasOneUse() && numberOf(quotient.getOperand(1))) {
      number /= *numberOf(quotient.getOperand(1));
      multiply(quotient.getOperand(0), false);
    } else {
      factors.push_back(value);
    }
  }
};

bool isClose(double found, double expected) {
  return std::abs(found - expected) <= 1e-6 * std::abs(expected);
}

/// x where the value is `number` times x.
Value scaledBy(Value value, double number) {
  Product product(value);
  return product.factors.size() == 1 && isClose(product.number, number) ? product.factors[0]
                                                                        : Value();
}

using Pattern = std::optional<Composite> (*)(NodeOp root);

/// 1 + f(u) of two factors besides 1/2: returns x and u.
std::optional<std::pair<Value, Value>> halfGate(NodeOp root, StringRef function) {
  Product product(root->getResult(0));
  if (product.factors.size() != 2 || !isClose(product.number, 0.5))
    return std::nullopt;
  for (int i : {0, 1})
    if (Value inner = besides(maker(product.factors[i], "Add"), 1))
      if (NodeOp gate = maker(inner, function))
        return std::pair(product.factors[1 - i], gate.getOperand(0));
  return std::nullopt;
}

///     x --------------------------> Mul -> Mul 1/2
///     '-> Div sqrt 2 -> Erf -> Add 1 -'
std::optional<Composite> matchGelu(NodeOp root) {
  auto gate = halfGate(root, "Erf");
  if (!gate || scaledBy(gate->second, std::numbers::sqrt2 / 2) != gate->first)
    return std::nullopt;
  return Composite{"Gelu", {gate->first}};
}

/// Whether a value is 0.044715 times the third power of x.
bool isSmallCube(Value value, Value x) {
  Product product(value);
  if (!isClose(product.number, 0.044715))
    return false;
  if (product.factors.size() == 1)
    if (NodeOp power = maker(product.factors[0], "Pow"))
      return power.getOperand(0) == x && isNumber(power.getOperand(1), 3);
  return product.factors.size() == 3 &&
         llvm::all_of(product.factors, [&](Value factor) { return factor == x; });
}

///     x ---------------------------------------------------------------> Mul -> Mul 1/2
///     '-> Pow 3 -> Mul 0.044715 -> Add x -> Mul sqrt(2/pi) -> Tanh -> Add 1 -'
std::optional<Composite> matchFastGelu(NodeOp root) {
  auto gate = halfGate(root, "Tanh");
  if (!gate)
    return std::nullopt;
  auto [x, curve] = *gate;
  Value sum = scaledBy(curve, std::sqrt(2 / std::numbers::pi));
  NodeOp add = sum ? maker(sum, "Add") : NodeOp();
  if (!add || add.getNumOperands() != 2)
    return std::nullopt;
  for (int i : {0, 1})
    if (add.getOperand(i) == x && isSmallCube(add.getOperand(1 - i), x))
      return Composite{"FastGelu", {x}};
  return std::nullopt;
}

///     x -> Sigmoid -> Mul x
std::optional<Composite> matchSwish(NodeOp root) {
  for (int i : {0, 1})
    if (NodeOp gate = maker(root.getOperand(i), "Sigmoid"))
      if (gate.getOperand(0) == root.getOperand(1 - i))
        return Composite{"Swish", {gate.getOperand(0)}};
  return std::nullopt;
}

pdc::TensorType typeOf(Value value) { return toTensorType(value.getType()); }

/// The first of the last dimensions over which a mean with kept dimensions goes.
std::optional<int64_t> meanAxis(NodeOp mean) {
  const int64_t rank = typeOf(mean.getOperand(0)).rank();
  if (mean.getNumOperands() < 2 || !isConstant(mean.getOperand(1).getDefiningOp()) ||
      !toAttributes(mean.getOnnxAttributes()).integer("keepdims", 1))
    return std::nullopt;
  std::vector<int64_t> axes = constantOf(mean.getOperand(1))->toIntegers();
  for (int64_t &axis : axes)
    axis += axis < 0 ? rank : 0;
  llvm::sort(axes);
  const int64_t first = rank - static_cast<int64_t>(axes.size());
  for (auto [i, axis] : llvm::enumerate(axes))
    if (axis != first + static_cast<int64_t>(i))
      return std::nullopt;
  return axes.empty() ? std::nullopt : std::optional(first);
}

/// Whether a value has one element per element of a row that begins at the axis.
bool isOfRow(Value value, const pdc::TensorType &x, int64_t axis) {
  return typeOf(value).shape == std::vector<int64_t>(x.shape.begin() + axis, x.shape.end());
}

bool isSquare(Value value, Value x) {
  if (NodeOp power = maker(value, "Pow"))
    return power.getOperand(0) == x && isNumber(power.getOperand(1), 2);
  NodeOp product = maker(value, "Mul");
  return product && product.getOperand(0) == x && product.getOperand(1) == x;
}

/// Rows divided by the root of their mean square.
struct Normalised {
  Value rows;
  int64_t axis;
  double epsilon;
};

/// ReduceMean of the squares -> Add epsilon -> Sqrt.
std::optional<Normalised> matchDeviation(Value deviation, Value rows) {
  NodeOp root = maker(deviation, "Sqrt");
  NodeOp shifted = root ? maker(root.getOperand(0), "Add") : NodeOp();
  for (int i : {0, 1}) {
    NodeOp mean = shifted ? maker(shifted.getOperand(i), "ReduceMean") : NodeOp();
    if (!mean || !isSquare(mean.getOperand(0), rows))
      continue;
    std::optional<double> epsilon = numberOf(shifted.getOperand(1 - i));
    std::optional<int64_t> axis = meanAxis(mean);
    if (epsilon && axis)
      return Normalised{rows, *axis, *epsilon};
  }
  return std::nullopt;
}

/// What is divided by where a value is 1 / deviation; else null.
Value inverted(Value value) {
  if (NodeOp inverse = maker(value, "Reciprocal"))
    return inverse.getOperand(0);
  NodeOp quotient = maker(value, "Div");
  return quotient && isNumber(quotient.getOperand(0), 1) ? quotient.getOperand(1) : Value();
}

/// Normalised rows times one number per element of a row.
struct Scaled {
  Normalised normalised;
  Value scale;
};

std::optional<Scaled> scaledRows(Value rows, Value deviation, Value scale) {
  std::optional<Normalised> found = matchDeviation(deviation, rows);
  if (!found || !isOfRow(scale, typeOf(rows), found->axis))
    return std::nullopt;
  return Scaled{*found, scale};
}

/// rows / deviation times scale; or rows, 1 / deviation and scale multiplied in any order.
std::optional<Scaled> matchScaled(NodeOp root) {
  Product product(root->getResult(0));
  const size_t count = product.factors.size();
  if (product.number != 1 || count < 2 || count > 3)
    return std::nullopt;
  for (size_t i = 0; i < count; ++i) {
    Value factor = product.factors[i], next = product.factors[(i + 1) % count];
    Value other = product.factors[(i + 2) % count];
    std::optional<Scaled> found;
    if (NodeOp quotient = maker(factor, "Div"); quotient && count == 2)
      found = scaledRows(quotient.getOperand(0), quotient.getOperand(1), next);
    if (Value deviation = inverted(factor); deviation && count == 3) {
      found = scaledRows(next, deviation, other);
      found = found ? found : scaledRows(other, deviation, next);
    }
    if (found)
      return found;
  }
  return std::nullopt;
}

/// What is subtracted from x to centre rows: their mean.
bool isCentred(NodeOp difference, int64_t axis) {
  NodeOp mean = maker(difference.getOperand(1), "ReduceMean");
  return mean && mean.getOperand(0) == difference.getOperand(0) && meanAxis(mean) == axis;
}

///     x -> Sub ReduceMean -> (as below) -> Mul scale -> Add bias
std::optional<Composite> matchLayerNormalization(NodeOp root) {
  for (int i : {0, 1}) {
    NodeOp product = maker(root.getOperand(i), "Mul");
    std::optional<Scaled> found = product ? matchScaled(product) : std::nullopt;
    NodeOp difference = found ? maker(found->normalised.rows, "Sub") : NodeOp();
    if (!difference || !isCentred(difference, found->normalised.axis))
      continue;
    Value x = difference.getOperand(0), bias = root.getOperand(1 - i);
    if (!isOfRow(bias, typeOf(x), found->normalised.axis))
      continue;
    Attributes attributes = {{"axis", found->normalised.axis},
                             {"epsilon", found->normalised.epsilon}};
    return Composite{"LayerNormalization", {x, found->scale, bias}, attributes, 3};
  }
  return std::nullopt;
}

///     x -> Div Sqrt(ReduceMean(x x) + epsilon) -> Mul scale
std::optional<Composite> matchRootMeanSquare(NodeOp root) {
  std::optional<Scaled> found = matchScaled(root);
  if (!found)
    return std::nullopt;
  // Centred rows are a LayerNormalization without what follows it.
  if (NodeOp difference = maker(found->normalised.rows, "Sub");
      difference && isCentred(difference, found->normalised.axis))
    return std::nullopt;
  Attributes attributes = {{"axis", found->normalised.axis},
                           {"epsilon", found->normalised.epsilon}};
  return Composite{"RMSNormalization", {found->normalised.rows, found->scale}, attributes, 2};
}

/// What a transposition of the last two dimensions reads, else null.
Value untransposed(Value value) {
  NodeOp node = maker(value, "Transpose");
  if (!node)
    return {};
  std::vector<int64_t> order = permutationOf(node);
  if (order.size() < 2)
    return {};
  std::swap(order.end()[-1], order.end()[-2]);
  return llvm::is_sorted(order) ? node.getOperand(0) : Value();
}

/// A product reads a transposed matrix as it is: exporters write the weights of layers so.
std::optional<Composite> matchTransposedProduct(NodeOp root) {
  Value left = root.getOperand(0), right = root.getOperand(1);
  Value first = untransposed(left), second = untransposed(right);
  if ((!first && !second) || typeOf(left).rank() < 2 || typeOf(right).rank() < 2)
    return std::nullopt;
  Attributes attributes = {{"alpha", 1.0},
                           {"transA", int64_t(first != nullptr)},
                           {"transB", int64_t(second != nullptr)}};
  return Composite{"FusedMatMul", {first ? first : left, second ? second : right}, attributes};
}

/// By the operator of the last node.
const std::pair<StringRef, Pattern> patterns[] = {{"Add", matchLayerNormalization},
                                                  {"Add", matchGroupNormalization},
                                                  {"Reshape", matchGroupNormalization},
                                                  {"Div", matchLocalResponse},
                                                  {"Mul", matchRootMeanSquare},
                                                  {"Mul", matchGelu},
                                                  {"Mul", matchFastGelu},
                                                  {"Mul", matchSwish},
                                                  {"Max", matchClip},
                                                  {"Min", matchClip}};

std::optional<Composite> recognise(NodeOp root, ConstantMasks &masks, NodeNames &names) {
  auto type = dyn_cast<RankedTensorType>(root->getResult(0).getType());
  if (!type || !isa<FloatType>(type.getElementType()))
    return std::nullopt;
  if (root.getOp() == "MatMul" || root.getOp() == "Transpose") {
    std::optional<Composite> attention = matchAttention(root, masks, names);
    return attention || root.getOp() == "Transpose" ? attention : matchTransposedProduct(root);
  }
  if (root.getNumOperands() != 2)
    return std::nullopt;
  for (auto [op, match] : patterns)
    if (op == root.getOp())
      if (std::optional<Composite> found = match(root);
          found && found->operands[0].getType() == type)
        return found;
  return std::nullopt;
}

/// The composite has the name of its last node, whose readers read it, or a view of it.
void replace(NodeOp root, const Composite &composite, NodeNames &names) {
  OpBuilder builder(root);
  std::string name = root.getName().str();
  SmallVector<Value> operands = composite.operands;
  while (!operands.back())
    operands.pop_back();
  for (Value &operand : operands)
    operand = operand ? operand : createAbsent(builder, root.getLoc());
  for (auto [operand, shape] : llvm::zip(operands, composite.shapes))
    operand = inShape(builder, root, "/headed", operand, shape, names);
  NodeOp whole = createNode(builder, root.getLoc(), composite.op, name, operands,
                            composite.attributes, "", composite.results);
  const std::vector<int64_t> shape = typeOf(root->getResult(0)).shape;
  root->getResult(0).replaceAllUsesWith(
      inShape(builder, root, "/Reshape", whole->getResult(0), shape, names));
  root.erase();
}

/// From the end, so that a whole pattern is seen before parts of it.
void recogniseIn(func::FuncOp function, ConstantMasks &masks) {
  NodeNames names(function);
  // Before attention, which then reads through what was transposed before it was turned.
  for (NodeOp node : llvm::to_vector(function.getOps<NodeOp>()))
    recogniseRotation(node, names);
  SmallVector<NodeOp> nodes(function.getOps<NodeOp>());
  for (NodeOp node : llvm::reverse(nodes)) {
    if (node.use_empty())
      node.erase(); // what a composite has left behind
    else if (std::optional<Composite> found = recognise(node, masks, names))
      replace(node, *found, names);
  }
  auto all = [&](StringRef op) {
    return llvm::to_vector(llvm::make_filter_range(
        function.getOps<NodeOp>(), [&](NodeOp node) { return node.getOp() == op; }));
  };
  llvm::for_each(all("Swish"), takeSwish);
  // What stands beside an attention may go with it, no other attention.
  for (NodeOp node : all("SoftmaxAttention"))
    joinOperands(node, names);
  for (NodeOp node : all("SoftmaxAttention"))
    readSamplesFirst(node, names);
  warnOfAttentionInParts(function, masks);
}

struct RecogniseComposites : pdc::impl::RecogniseCompositesBase<RecogniseComposites> {
  void runOnOperation() override {
    ConstantMasks masks;
    auto body = [&] {
      for (auto function : getOperation().getOps<func::FuncOp>())
        recogniseIn(function, masks);
      return success();
    };
    if (failed(runChecked(getOperation(), body)))
      signalPassFailure();
  }
};

} // namespace
