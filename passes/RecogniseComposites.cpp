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

/// The other operand of a node of two, one of which is this number; null where neither is.
Value besides(NodeOp node, double number) {
  if (!node || node.getNumOperands() != 2)
    return {};
  for (int i : {0, 1})
    if (isNumber(node.getOperand(i), number))
      return node.getOperand(1 - i);
  return {};
}

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
