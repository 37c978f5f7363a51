#include "passes/Nodes.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pdc {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

GradientValue wrap(Value value) { return {value.getAsOpaquePointer()}; }
Value unwrap(GradientValue value) { return Value::getFromOpaquePointer(value.handle); }

/// What one consumer adds to the gradient of a value.
struct Term {
  int consumer; ///< position in the forward graph
  int operand;
  Value gradient;
  bool operator<(const Term &other) const {
    return std::tie(consumer, operand) < std::tie(other.consumer, other.operand);
  }
};

/// The backward pass of @train, from the loss to the weights.
class BackwardPass {
public:
  explicit BackwardPass(func::FuncOp train);
  /// Reports at the operation that is wrong.
  LogicalResult run();

private:
  friend class RuleBuilder;

  LogicalResult findActiveValues();
  LogicalResult seed();
  Value seedValue(NodeOp loss);
  Value readOne(NodeOp loss);
  LogicalResult differentiate(NodeOp node, int position);
  Value gradientOf(Value value, NodeOp producer);
  void accumulateWeights();
  void accumulate(MemoryOp weight, const Term &term, int use);

  func::FuncOp train;
  ModuleOp module;
  SymbolTable symbols;
  NodeNames names;
  OpBuilder builder;
  SmallVector<NodeOp> forward;
  /// Values that a weight leads to: only these have gradients.
  llvm::DenseSet<Value> active;
  llvm::DenseMap<Value, SmallVector<Term>> terms;
};

/// How the rule of one forward node sees the graph.
class RuleBuilder : public GradientBuilder {
public:
  RuleBuilder(BackwardPass &pass, NodeOp node, int position, ArrayRef<Value> outputGradients)
      : pass(pass), forward(node), position(position), outputGradients(outputGradients),
        known(toAttributes(node.getOnnxAttributes())) {}

  const Attributes &attributes() const override { return known; }
  size_t inputCount() const override { return forward.getNumOperands(); }
  size_t outputCount() const override { return forward.getNumResults(); }
  GradientValue input(size_t i) const override {
    if (i >= inputCount() || isa<NoneType>(forward.getOperand(i).getType()))
      return {};
    return wrap(forward.getOperand(i));
  }
  GradientValue output(size_t i) const override {
    return i < outputCount() ? wrap(forward.getResult(i)) : GradientValue();
  }
  pdc::TensorType type(GradientValue value) const override {
    return toTensorType(unwrap(value).getType());
  }
  GradientValue outputGradient(size_t i) const override {
    return i < outputGradients.size() && outputGradients[i] ? wrap(outputGradients[i])
                                                            : GradientValue();
  }
  bool wants(size_t i) const override {
    return i < inputCount() && pass.active.contains(forward.getOperand(i));
  }
  void setInputGradient(size_t i, GradientValue gradient) override;
  std::vector<GradientValue> node(std::string_view op, std::vector<GradientValue> inputs,
                                  Attributes attributes, size_t outputs) override;
  GradientValue constant(Tensor value) override {
    return node("Constant", {}, {{"value", std::move(value)}}, 1).front();
  }

private:
  BackwardPass &pass;
  mutable NodeOp forward; // accessors of operations are not const
  int position;
  ArrayRef<Value> outputGradients;
  Attributes known;
};

void RuleBuilder::setInputGradient(size_t i, GradientValue gradient) {
  if (!wants(i) || !gradient)
    return;
  Value value = forward.getOperand(i);
  if (!(type(gradient) == toTensorType(value.getType())))
    throw Error("the gradient of input " + std::to_string(i) + " of node '" +
                forward.getName().str() + "' has type " + type(gradient).toString() +
                ", expected " + toTensorType(value.getType()).toString());
  pass.terms[value].push_back({position, static_cast<int>(i), unwrap(gradient)});
}

std::vector<GradientValue> RuleBuilder::node(std::string_view op, std::vector<GradientValue> inputs,
                                             Attributes attributes, size_t outputs) {
  SmallVector<Value> operands;
  for (GradientValue input : inputs)
    operands.push_back(input ? unwrap(input) : createAbsent(pass.builder, forward.getLoc()));
  std::string name = pass.names.unique(forward.getName() + "/grad/" + llvm::Twine(op));
  NodeOp added = createNode(pass.builder, forward.getLoc(), op, name, operands, attributes,
                            forward.getName(), outputs);
  std::vector<GradientValue> values;
  for (Value result : added.getResults())
    values.push_back(wrap(result));
  return values;
}

BackwardPass::BackwardPass(func::FuncOp train)
    : train(train), module(train->getParentOfType<ModuleOp>()), symbols(module), names(train),
      builder(train.getBody().front().getTerminator()),
      forward(train.getBody().front().getOps<NodeOp>()) {}

LogicalResult BackwardPass::run() {
  if (failed(findActiveValues()) || failed(seed()))
    return failure();
  for (int i = static_cast<int>(forward.size()) - 1; i >= 0; --i) {
    LogicalResult result = success();
    if (!refuseAt(forward[i], [&] { result = differentiate(forward[i], i); }) || failed(result))
      return failure();
  }
  accumulateWeights();
  return success();
}

/// Values whose change a weight's change causes, through operators that let gradients pass.
LogicalResult BackwardPass::findActiveValues() {
  for (auto read : train.getOps<WeightVersionOp>())
    if (symbols.lookup<MemoryOp>(read.getMemory()).getRole() == Role::Weight)
      active.insert(read.getValue());
  for (NodeOp node : forward) {
    const Operator *rules = findOperator(node.getOp());
    if (!rules)
      return node.emitError() << "node '" << node.getName() << "' has operator '" << node.getOp()
                              << "', which pdc does not know";
    if (!refuseAt(node, [&] { checkTypes(node); }))
      return failure();
    bool reached = llvm::any_of(node.getOperands(), [&](Value v) { return active.contains(v); });
    if (!reached || rules->stopsGradient)
      continue;
    for (Value result : node.getResults())
      if (isa<FloatType>(cast<RankedTensorType>(result.getType()).getElementType()))
        active.insert(result);
  }
  return success();
}

/// The gradient that arrives at the loss. A synchronous update divides by the loss weight of the
/// whole minibatch; an asynchronous one sees one microbatch, whose weight is known right here.
LogicalResult BackwardPass::seed() {
  for (auto sum : train.getOps<AccumulateOp>()) {
    if (sum.getMemory() != "pdc.loss")
      continue;
    auto loss = sum.getValue().getDefiningOp<NodeOp>();
    if (!loss || !active.contains(sum.getValue()))
      return sum.emitError() << "no trainable weight leads to this loss";
    if (Value value = seedValue(loss))
      terms[sum.getValue()].push_back({static_cast<int>(forward.size()), 0, value});
    else
      return sum.emitError() << "asynchronous training needs the weight of each microbatch's loss: "
                                "expected a pdc.accumulate into @pdc.loss_weight";
  }
  if (terms.empty())
    return train.emitError() << "@train sums no loss: expected a pdc.accumulate into @pdc.loss";
  return success();
}

Value BackwardPass::seedValue(NodeOp loss) {
  if (!module->hasAttr("pdc.asynchronous"))
    return readOne(loss);
  for (auto sum : train.getOps<AccumulateOp>())
    if (sum.getMemory() == "pdc.loss_weight")
      return createNode(builder, loss.getLoc(), "ReciprocalOrZero",
                        names.unique(loss.getName() + "/grad/seed"), sum.getValue(), {},
                        loss.getName())
          .getResult(0);
  return {};
}

/// The number 1 as a memory: kernels of losses read their gradient from memory.
Value BackwardPass::readOne(NodeOp loss) {
  auto type = cast<RankedTensorType>(loss.getResult(0).getType());
  OpBuilder outside(train);
  if (!symbols.lookup("pdc.one"))
    createMemory(outside, loss.getLoc(), "pdc.one", Role::Constant, Rate::Once, type,
                 builder.getF64FloatAttr(1));
  return builder.create<ReadOp>(loss.getLoc(), type, "pdc.one");
}

LogicalResult BackwardPass::differentiate(NodeOp node, int position) {
  bool reachesWeight = llvm::any_of(node.getResults(), [&](Value v) { return active.contains(v); });
  if (!reachesWeight)
    return success();
  SmallVector<Value> gradients;
  for (Value result : node.getResults())
    gradients.push_back(gradientOf(result, node));
  if (llvm::none_of(gradients, [](Value gradient) { return gradient != nullptr; }))
    return success();
  const Operator *rules = findOperator(node.getOp());
  if (!rules->differentiate)
    return node.emitError() << "node '" << node.getName()
                            << "' lies between a weight and the loss, "
                            << "but operator '" << node.getOp() << "' has no gradient";
  RuleBuilder rule(*this, node, position, gradients);
  rules->differentiate(rule);
  return success();
}

/// The sum of what the consumers of a value sent back, in their order in the forward graph; null
/// when nothing came.
Value BackwardPass::gradientOf(Value value, NodeOp producer) {
  auto found = terms.find(value);
  if (found == terms.end())
    return {};
  llvm::sort(found->second);
  if (found->second.size() == 1)
    return found->second.front().gradient;
  SmallVector<Value> gradients;
  for (const Term &term : found->second)
    gradients.push_back(term.gradient);
  return createNode(builder, producer.getLoc(), "Sum",
                    names.unique(producer.getName() + "/grad/sum"), gradients, {},
                    producer.getName())
      .getResult(0);
}

/// Each use of a weight has its own sum, so that the order of additions, and with it each bit, does
/// not depend on which stages the uses lie in.
void BackwardPass::accumulateWeights() {
  llvm::MapVector<StringAttr, SmallVector<Term>> uses;
  for (auto read : train.getOps<WeightVersionOp>())
    llvm::append_range(uses[read.getMemoryAttr().getAttr()], terms.lookup(read.getValue()));
  for (auto &[name, found] : uses) {
    llvm::sort(found);
    for (auto [use, term] : llvm::enumerate(found))
      accumulate(symbols.lookup<MemoryOp>(name), term, use);
  }
}

void BackwardPass::accumulate(MemoryOp weight, const Term &term, int use) {
  std::string name = weight.getSymName().str() + "/gradient";
  if (use > 0)
    name += "." + std::to_string(use);
  OpBuilder outside(module.getBodyRegion());
  outside.setInsertionPointAfter(weight);
  auto isGradient = [](Operation &op) {
    auto memory = dyn_cast<MemoryOp>(op);
    return memory && memory.getRole() == Role::Gradient;
  };
  while (outside.getInsertionPoint() != outside.getBlock()->end() &&
         isGradient(*outside.getInsertionPoint()))
    outside.setInsertionPointAfter(&*outside.getInsertionPoint());
  createMemory(outside, weight.getLoc(), name, Role::Gradient, Rate::Update, weight.getType());
  builder.setInsertionPointAfterValue(term.gradient);
  builder.create<AccumulateOp>(term.gradient.getLoc(), term.gradient, name);
}

struct Differentiate : pdc::impl::DifferentiateBase<Differentiate> {
  void runOnOperation() override {
    auto body = [&]() -> LogicalResult {
      auto train = getOperation().lookupSymbol<func::FuncOp>("train");
      if (!train)
        return getOperation().emitError() << "the module has no function @train to differentiate";
      return BackwardPass(train).run();
    };
    if (failed(runChecked(getOperation(), body)))
      signalPassFailure();
  }
};

} // namespace
