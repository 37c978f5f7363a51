#include "compiler/operators/Composition.h"
#include "passes/GradientNode.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/RepeatedConstants.h"
#include "passes/SelectedRows.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

#include <cmath>
#include <deque>
#include <map>

namespace pdc {
#define GEN_PASS_DEF_INFERSHAPES
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// Larger values stay computed: shapes, axes and tables are smaller, weights and masks of long
/// sequences are not, of which others know what they hide (passes/ConstantRows.h).
constexpr int64_t kLargestEvaluated = 1 << 22;

/// What was computed of constants: the layers of a network ask for the same masks.
class Evaluations {
public:
  /// The results of a node whose operands are constants, if an equal one was evaluated before.
  const SmallVector<DenseElementsAttr> *find(NodeOp node) const {
    auto found = results.find(keyOf(node));
    return found == results.end() ? nullptr : &found->second;
  }
  void add(NodeOp node, SmallVector<DenseElementsAttr> values) {
    results[keyOf(node)] = std::move(values);
  }

private:
  /// What MLIR holds once is the same where its address is.
  using Key = std::vector<const void *>;

  static Key keyOf(NodeOp node) {
    Key key = {node.getOpAttr().getAsOpaquePointer(),
               node.getOnnxAttributes().getAsOpaquePointer()};
    for (Value operand : node.getOperands())
      key.push_back(isConstant(operand.getDefiningOp()) ? elementsOf(operand).getAsOpaquePointer()
                                                        : operand.getType().getAsOpaquePointer());
    key.push_back(nullptr);
    for (Type type : node.getResultTypes())
      key.push_back(type.getAsOpaquePointer());
    return key;
  }

  std::map<Key, SmallVector<DenseElementsAttr>> results;
};

/// What the inference of a function's nodes shares.
struct Inference {
  NodeNames names;
  Evaluations &evaluations;
  SelectedRows rows = {};
  RepeatedConstants repeated = {};
  bool followsRows = true; ///< not through the parts of what says itself what becomes of them
  int composing = 0;       ///< compositions that the node is part of
};

SmallVector<Value> inferNode(NodeOp node, Inference &inference);

/// Puts the nodes that an operator is composed of before it. Each is inferred at once, so that the
/// next may ask for its value.
class Composition : public CompositionBuilder {
public:
  Composition(NodeOp composed, const NodeFacts &facts, Inference &inference)
      : composed(composed), view(facts.view()), inference(inference), builder(composed) {}

  const Attributes &attributes() const override { return view.attributes; }
  size_t inputCount() const override { return composed.getNumOperands(); }
  NodeValue input(size_t i) const override {
    if (i >= inputCount() || isa<NoneType>(composed.getOperand(i).getType()))
      return {};
    return wrap(composed.getOperand(i));
  }
  pdc::TensorType type(NodeValue value) const override {
    return toTensorType(unwrap(value).getType());
  }
  const Tensor *known(NodeValue value) const override {
    std::optional<Tensor> found = constantOf(unwrap(value));
    return found ? &values.emplace_back(std::move(*found)) : nullptr;
  }
  std::optional<ValueMaker> maker(NodeValue value) const override {
    auto node = unwrap(value).getDefiningOp<NodeOp>();
    if (!node)
      return std::nullopt;
    std::vector<NodeValue> inputs;
    for (Value operand : node.getOperands())
      inputs.push_back(isa<NoneType>(operand.getType()) ? NodeValue() : wrap(operand));
    return ValueMaker{node.getOp().str(), inputs, toAttributes(node.getOnnxAttributes())};
  }
  std::string describe() const override {
    return "node '" + composed.getName().str() + "' (" + composed.getOp().str() + ")";
  }
  std::vector<NodeValue> node(std::string_view op, std::vector<NodeValue> inputs,
                              Attributes attributes, size_t outputs) override {
    SmallVector<Value> operands;
    for (NodeValue input : inputs)
      operands.push_back(input ? unwrap(input) : createAbsent(builder, composed.getLoc()));
    std::string name = inference.names.unique(composed.getName() + "/" + op);
    NodeOp added = createNode(builder, composed.getLoc(), llvm::StringRef(op.data(), op.size()),
                              name, operands, attributes, "", outputs);
    std::vector<NodeValue> results;
    for (Value result : inferNode(added, inference))
      results.push_back(wrap(result));
    return results;
  }
  NodeValue constant(Tensor value) override {
    return node("Constant", {}, {{"value", std::move(value)}}, 1)[0];
  }

private:
  mutable NodeOp composed; ///< MLIR's accessors are not const
  NodeView view;
  Inference &inference;
  OpBuilder builder;
  mutable std::deque<Tensor> values;
};

/// Puts values in the node's place; none where it stays as it is.
SmallVector<Value> putInPlace(NodeOp node, ArrayRef<NodeValue> made) {
  SmallVector<Value> values;
  for (NodeValue value : made)
    values.push_back(unwrap(value));
  if (values.empty())
    return values;
  values.truncate(node.getNumResults());
  for (auto [result, value] : llvm::zip(node.getResults(), values))
    result.replaceAllUsesWith(value);
  node.erase();
  return values;
}

/// The values that take the node's place; none where it stays as it is.
SmallVector<Value> composeInPlace(NodeOp node, const NodeFacts &facts, Compose compose,
                                  Inference &inference) {
  Composition composition(node, facts, inference);
  const bool followed = std::exchange(inference.followsRows, false);
  std::vector<NodeValue> made =
      followed ? inference.rows.prepare(node, composition) : std::vector<NodeValue>();
  const bool isPrepared = !made.empty();
  inference.followsRows = followed && !inference.rows.hidesParts(node);
  ++inference.composing;
  if (!isPrepared)
    made = compose(composition);
  --inference.composing;
  inference.followsRows = followed;
  if (!made.empty() && followed && !isPrepared) {
    SmallVector<Value> values;
    for (NodeValue value : made)
      values.push_back(unwrap(value));
    inference.rows.begin(node, values);
  }
  return putInPlace(node, made);
}

/// What takes the place of a node that reads rows of which data select some, where it would read
/// others too.
SmallVector<Value> followInPlace(NodeOp node, const NodeFacts &facts, Inference &inference) {
  if (!inference.followsRows || !inference.rows.concern(node))
    return {};
  Composition composition(node, facts, inference);
  const bool isPart = inference.composing > 0;
  ++inference.composing;
  std::vector<NodeValue> made = inference.rows.follow(facts, node, composition, isPart);
  --inference.composing;
  return putInPlace(node, made);
}

/// Whether a sum over microbatches reads the node: each of them is to make a value for it, as the
/// weight of a loss whose labels are constants.
bool isSummed(NodeOp node) {
  return llvm::any_of(node->getUsers(), [](Operation *user) { return isa<AccumulateOp>(user); });
}

bool isLarge(ArrayRef<pdc::TensorType> outputs) {
  return llvm::any_of(
      outputs, [](const pdc::TensorType &type) { return type.elementCount() > kLargestEvaluated; });
}

/// What takes the place of a node whose value is known but large.
SmallVector<Value> shrinkInPlace(NodeOp node, const NodeFacts &facts,
                                 ArrayRef<pdc::TensorType> outputs, Inference &inference) {
  inference.repeated.readUnrepeated(facts, node);
  if (isSummed(node) || !isLarge(outputs))
    return {};
  Composition composition(node, facts, inference);
  return putInPlace(node, inference.repeated.shrink(facts, node, composition));
}

bool isEmpty(ArrayRef<pdc::TensorType> outputs) {
  return llvm::all_of(outputs,
                      [](const pdc::TensorType &type) { return type.elementCount() == 0; });
}

/// Whether the node's value is known now: it depends on constants, or on a shape alone.
bool isKnown(const NodeFacts &facts, ArrayRef<pdc::TensorType> outputs) {
  if (isEmpty(outputs))
    return true;
  if (!facts.rules().evaluate)
    return false;
  return !isLarge(outputs) && (facts.hasOnlyConstants() || facts.rules().name == "Shape" ||
                               facts.rules().name == "Size");
}

/// Puts one Constant node per result in the node's place.
SmallVector<Value> replaceByConstants(NodeOp node, ArrayRef<DenseElementsAttr> values,
                                      Inference &inference) {
  OpBuilder builder(node);
  SmallVector<Value> constants;
  for (auto [i, result] : llvm::enumerate(node.getResults())) {
    std::string name = i == 0 ? node.getName().str() : inference.names.unique(node.getName());
    NodeOp constant = createConstant(builder, node.getLoc(), name, values[i]);
    result.replaceAllUsesWith(constant.getResult(0));
    inference.rows.move(result, constant.getResult(0));
    constants.push_back(constant.getResult(0));
  }
  node.erase();
  return constants;
}

/// Values are doubles: integers beyond 2^53 may have lost bits, those that mean "to the end" aside.
void checkExact(NodeOp node, const Tensor &value) {
  if (value.type.element != ElementType::i64)
    return;
  for (double element : value.data)
    if (std::abs(element) > 0x1p53 && std::abs(element) < 0x1p63)
      throw Error("node '" + node.getName().str() + "' makes the integer " +
                  std::to_string(toInteger(element)) +
                  " at compile time, expected at most 9007199254740992 (2^53)");
}

SmallVector<DenseElementsAttr> evaluateNode(NodeOp node, const NodeFacts &facts,
                                            ArrayRef<pdc::TensorType> outputs) {
  SmallVector<DenseElementsAttr> values;
  if (isEmpty(outputs)) {
    for (const pdc::TensorType &type : outputs)
      values.push_back(toMlir(node.getContext(), Tensor::zeros(type)));
    return values;
  }
  for (const Tensor &value : facts.evaluate()) {
    checkExact(node, value);
    values.push_back(toMlir(node.getContext(), value));
  }
  return values;
}

/// Rows that data select are taken for as many as there may be.
std::vector<pdc::TensorType> inferTypes(NodeOp node, const NodeFacts &facts,
                                        const SelectedRows &rows) {
  try {
    return facts.infer();
  } catch (const Error &error) {
    if (!rows.concern(node))
      throw;
    throw Error(std::string(error.what()) +
                "; if it was made for fewer rows: data select some of those that it reads, and how "
                "many is not known when it is compiled");
  }
}

/// The node's results, or what takes their place.
SmallVector<Value> inferNode(NodeOp node, Inference &inference) {
  if (isConstant(node) && elementsOf(node.getResult(0)).getType() == node.getResult(0).getType())
    return node.getResults();
  NodeFacts facts(node);
  std::vector<pdc::TensorType> outputs = inferTypes(node, facts, inference.rows);
  if (node.getOp() == gradientOperator)
    return replaceGradient(node, inference.names);
  for (auto [result, type] : llvm::zip(node.getResults(), outputs))
    result.setType(toMlir(node.getContext(), type));
  bool isEvaluated =
      !isConstant(node) && !isSummed(node) && node.getNumResults() > 0 && isKnown(facts, outputs);
  if (Compose compose = isEvaluated ? nullptr : findComposition(facts.rules().name))
    if (SmallVector<Value> values = composeInPlace(node, facts, compose, inference);
        !values.empty())
      return values;
  if (SmallVector<Value> values = followInPlace(node, facts, inference); !values.empty())
    return values;
  if (!isEvaluated)
    if (SmallVector<Value> values = shrinkInPlace(node, facts, outputs, inference); !values.empty())
      return values;
  if (!isEvaluated) {
    inference.repeated.note(node);
    return node.getResults();
  }
  if (!inference.evaluations.find(node))
    inference.evaluations.add(node, evaluateNode(node, facts, outputs));
  return replaceByConstants(node, *inference.evaluations.find(node), inference);
}

LogicalResult inferFunction(func::FuncOp function, Evaluations &evaluations) {
  Inference inference{NodeNames(function), evaluations};
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    auto node = dyn_cast<NodeOp>(op);
    if (!node && !refuseAt(&op, [&] { inference.rows.keepInside(&op); }))
      return failure();
    if (!node)
      continue;
    if (!refuseAt(node, [&] { inferNode(node, inference); }))
      return failure();
  }
  return success();
}

/// A loss of one element is that number.
void showAsNumber(AccumulateOp sum, NodeNames &names) {
  const pdc::TensorType type = toTensorType(sum.getValue().getType());
  if (type.rank() == 0 || type.elementCount() != 1)
    return;
  OpBuilder builder(sum);
  NodeOp shape = createNode(builder, sum.getLoc(), "Constant", names.unique("loss/Constant"), {},
                            {{"value", Tensor::vector({})}});
  NodeOp number = createNode(builder, sum.getLoc(), "Reshape", names.unique("loss/Reshape"),
                             {sum.getValue(), shape.getResult(0)}, {});
  sum.getValueMutable().assign(number.getResult(0));
}

/// What a memory sums has its type; a loss is one number.
LogicalResult checkSums(func::FuncOp function, SymbolTable &memories) {
  NodeNames names(function);
  for (auto sum : function.getOps<AccumulateOp>()) {
    const bool isLoss = sum.getMemory() == "pdc.loss" || sum.getMemory() == "pdc.evaluation_loss";
    if (isLoss)
      showAsNumber(sum, names);
    auto memory = memories.lookup<MemoryOp>(sum.getMemory());
    pdc::TensorType expected = toTensorType(memory.getType());
    pdc::TensorType found = toTensorType(sum.getValue().getType());
    if (found == expected)
      continue;
    if (isLoss)
      return sum.emitError() << "the loss must be a scalar: expected " << expected.toString()
                             << ", found " << found.toString()
                             << "; choose a scalar output, or export its mean";
    return sum.emitError() << "memory '" << sum.getMemory() << "' sums " << expected.toString()
                           << ", but is given " << found.toString();
  }
  return success();
}

struct InferShapes : pdc::impl::InferShapesBase<InferShapes> {
  void runOnOperation() override {
    SymbolTable memories(getOperation());
    Evaluations evaluations;
    auto body = [&] {
      for (auto function : getOperation().getOps<func::FuncOp>())
        if (failed(inferFunction(function, evaluations)) || failed(checkSums(function, memories)))
          return failure();
      return success();
    };
    if (failed(runChecked(getOperation(), body)) || failed(mlir::verify(getOperation())))
      signalPassFailure();
  }
};

} // namespace
