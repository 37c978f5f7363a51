#include "passes/Backpropagation.h"
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

/// The backward pass of @train, from the loss to the weights.
class BackwardPass {
public:
  BackwardPass(func::FuncOp train, bool scalesLoss)
      : train(train), scalesLoss(scalesLoss), module(train->getParentOfType<ModuleOp>()),
        symbols(module), names(train), builder(train.getBody().front().getTerminator()),
        rules(SmallVector<NodeOp>(train.getBody().front().getOps<NodeOp>()), builder, names,
              /*hasOrigins=*/true) {}
  /// Reports at the operation that is wrong.
  LogicalResult run();

private:
  LogicalResult findActiveValues();
  LogicalResult seed();
  Value seedValue(NodeOp loss);
  double expectedLossWeight();
  Value readNumber(NodeOp loss, StringRef name, double value);
  void accumulateWeights();
  void accumulate(MemoryOp weight, const GradientTerm &term, size_t use);

  func::FuncOp train;
  const bool scalesLoss;
  ModuleOp module;
  SymbolTable symbols;
  NodeNames names;
  OpBuilder builder;
  Backpropagation rules;
};

LogicalResult BackwardPass::run() {
  if (failed(findActiveValues()) || failed(seed()))
    return failure();
  for (int i = static_cast<int>(rules.nodes().size()) - 1; i >= 0; --i)
    if (!refuseAt(rules.nodes()[i], [&] { rules.differentiate(i); }))
      return failure();
  accumulateWeights();
  return success();
}

/// Values that a weight leads to: only these have gradients.
LogicalResult BackwardPass::findActiveValues() {
  for (auto read : train.getOps<WeightVersionOp>())
    if (symbols.lookup<MemoryOp>(read.getMemory()).getRole() == Role::Weight)
      rules.want(read.getValue());
  for (NodeOp node : rules.nodes())
    if (!refuseAt(node, [&] { rules.markActive(node); }))
      return failure();
  return success();
}

/// The gradient that arrives at the loss. A synchronous update divides by the loss weight of the
/// whole minibatch; an asynchronous one sees one microbatch, whose weight is known right here.
LogicalResult BackwardPass::seed() {
  bool isSeeded = false;
  for (auto sum : train.getOps<AccumulateOp>()) {
    if (sum.getMemory() != "pdc.loss")
      continue;
    auto loss = sum.getValue().getDefiningOp<NodeOp>();
    if (!loss || !rules.isActive(sum.getValue()))
      return sum.emitError() << "no trainable weight leads to this loss";
    if (Value value = seedValue(loss))
      rules.seed(sum.getValue(), value), isSeeded = true;
    else
      return sum.emitError() << "asynchronous training needs the weight of each microbatch's loss: "
                                "expected a pdc.accumulate into @pdc.loss_weight";
  }
  if (!isSeeded)
    return train.emitError() << "@train sums no loss: expected a pdc.accumulate into @pdc.loss";
  return success();
}

Value BackwardPass::seedValue(NodeOp loss) {
  if (!module->hasAttr("pdc.asynchronous"))
    return scalesLoss ? readNumber(loss, "pdc.loss_scale", 65536 / expectedLossWeight())
                      : readNumber(loss, "pdc.one", 1);
  if (scalesLoss)
    throw Error(
        "precision fp16 scales the loss by a number that all stages agree on at each update, "
        "which asynchronous training does not have; use a synchronous schedule, or bf16");
  for (auto sum : train.getOps<AccumulateOp>())
    if (sum.getMemory() == "pdc.loss_weight")
      return createNode(builder, loss.getLoc(), "ReciprocalOrZero",
                        names.unique(loss.getName() + "/grad/seed"), sum.getValue(), {},
                        loss.getName())
          .getResult(0);
  return {};
}

/// Of a microbatch: each label counts.
double BackwardPass::expectedLossWeight() {
  for (auto sum : train.getOps<AccumulateOp>())
    if (auto weight = sum.getValue().getDefiningOp<NodeOp>();
        weight && sum.getMemory() == "pdc.loss_weight" && weight.getNumOperands() > 0)
      return static_cast<double>(std::max<int64_t>(
          1, cast<RankedTensorType>(weight.getOperand(0).getType()).getNumElements()));
  return 1;
}

/// A number as a memory: kernels of losses read their gradient from memory, and the runtime changes
/// the loss's scale there.
Value BackwardPass::readNumber(NodeOp loss, StringRef name, double value) {
  auto type = cast<RankedTensorType>(loss.getResult(0).getType());
  OpBuilder outside(train);
  if (!symbols.lookup(name))
    createMemory(symbols, outside, loss.getLoc(), name, Role::Constant, Rate::Once, type,
                 builder.getF64FloatAttr(value));
  return builder.create<ReadOp>(loss.getLoc(), type, name);
}

/// Each use of a weight has its own sum, so that the order of additions, and with it each bit, does
/// not depend on which stages the uses lie in.
void BackwardPass::accumulateWeights() {
  llvm::MapVector<StringAttr, SmallVector<GradientTerm>> uses;
  for (auto read : train.getOps<WeightVersionOp>())
    llvm::append_range(uses[read.getMemoryAttr().getAttr()], rules.termsOf(read.getValue()));
  for (auto &[name, found] : uses) {
    llvm::sort(found);
    for (auto [use, term] : llvm::enumerate(found))
      accumulate(symbols.lookup<MemoryOp>(name), term, use);
  }
}

void BackwardPass::accumulate(MemoryOp weight, const GradientTerm &term, size_t use) {
  const std::string name = gradientName(weight.getSymName(), use);
  OpBuilder outside(module.getBodyRegion());
  outside.setInsertionPointAfter(weight);
  auto isGradient = [](Operation &op) {
    auto memory = dyn_cast<MemoryOp>(op);
    return memory && memory.getRole() == Role::Gradient;
  };
  while (outside.getInsertionPoint() != outside.getBlock()->end() &&
         isGradient(*outside.getInsertionPoint()))
    outside.setInsertionPointAfter(&*outside.getInsertionPoint());
  createMemory(symbols, outside, weight.getLoc(), name, Role::Gradient, Rate::Update,
               weight.getType());
  builder.setInsertionPointAfterValue(term.gradient);
  builder.create<AccumulateOp>(term.gradient.getLoc(), term.gradient, name);
}

/// Once gradients are there, what stopped them does nothing.
void removeStops(ModuleOp module) {
  SmallVector<NodeOp> stops;
  module.walk([&](NodeOp node) {
    if (node.getOp() == "pdc.StopGradient")
      stops.push_back(node);
  });
  for (NodeOp stop : stops) {
    stop.getResult(0).replaceAllUsesWith(stop.getOperand(0));
    stop.erase();
  }
}

struct Differentiate : pdc::impl::DifferentiateBase<Differentiate> {
  using DifferentiateBase::DifferentiateBase;

  void runOnOperation() override {
    auto body = [&]() -> LogicalResult {
      auto train = getOperation().lookupSymbol<func::FuncOp>("train");
      if (!train)
        return getOperation().emitError() << "the module has no function @train to differentiate";
      if (failed(BackwardPass(train, scalesLoss).run()))
        return failure();
      removeStops(getOperation());
      return success();
    };
    if (failed(runChecked(getOperation(), body)))
      signalPassFailure();
  }
};

} // namespace
