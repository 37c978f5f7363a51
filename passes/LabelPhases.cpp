#include "passes/Nodes.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pdc {
#define GEN_PASS_DEF_LABELPHASES
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// Labels the nodes of one function.
class Labels {
public:
  explicit Labels(func::FuncOp function)
      : function(function), module(function->getParentOfType<ModuleOp>()), symbols(module) {}

  LogicalResult labelRates();
  void addWhatIsTheSame();
  void labelTrainPhases();
  void labelEvaluatePhases();
  void hoistPreparation();

private:
  Rate rateOf(Value value);
  LogicalResult labelRate(NodeOp node);
  ir::Phase trainPhase(NodeOp node);
  bool feedsOnlySums(NodeOp node);
  bool feedsOnlyUpdates(NodeOp node);
  bool isPrepared(NodeOp node);
  void takeViewOutside(NodeOp view);
  void keepInMemory(Value value);

  func::FuncOp function;
  ModuleOp module;
  SymbolTable symbols;
};

Rate Labels::rateOf(Value value) {
  Operation *definition = value.getDefiningOp();
  if (auto node = dyn_cast<NodeOp>(definition))
    return *node.getRate();
  if (auto read = dyn_cast<ReadOp>(definition))
    return symbols.lookup<MemoryOp>(read.getMemory()).getRate();
  if (auto read = dyn_cast<WeightVersionOp>(definition))
    return symbols.lookup<MemoryOp>(read.getMemory()).getRate();
  return Rate::Once;
}

LogicalResult Labels::labelRates() {
  for (auto node : function.getOps<NodeOp>())
    if (failed(labelRate(node)))
      return failure();
  return success();
}

/// A value changes as often as the operand that changes most often. A minibatch's value and a
/// microbatch's do not meet but in a sum.
LogicalResult Labels::labelRate(NodeOp node) {
  Rate rate = Rate::Once;
  Value fastest, perUpdate;
  for (Value operand : node.getOperands()) {
    Rate operandRate = rateOf(operand);
    if (operandRate == Rate::Update)
      perUpdate = operand;
    if (operandRate == Rate::Microbatch)
      fastest = operand;
    rate = std::max(rate, operandRate);
  }
  if (fastest && perUpdate)
    return node.emitError() << "node '" << node.getName()
                            << "' reads a value of each microbatch and one "
                            << "of each update; only pdc.accumulate leads from one to the other";
  node.setRate(rate);
  return success();
}

/// What is added to a sum is made for each microbatch: where it is the same for all of them, as the
/// gradient of a penalty on weights, or the weight of a loss with constant labels, its sum with
/// zero is.
void Labels::addWhatIsTheSame() {
  NodeNames names(function);
  std::string loss;
  for (auto sum : llvm::make_early_inc_range(function.getOps<AccumulateOp>())) {
    Value value = sum.getValue();
    auto maker = value.getDefiningOp<NodeOp>();
    if (sum.getMemory() == "pdc.loss" && maker)
      loss = maker.getName().str();
    auto memory = symbols.lookup<MemoryOp>(sum.getMemory());
    if (rateOf(value) > Rate::Version)
      continue;
    const bool isGradient = memory.getRole() == Role::Gradient;
    const std::string origin = maker && maker.getOrigin() ? maker.getOrigin()->str()
                               : isGradient               ? loss
                                                          : "";
    OpBuilder builder(sum);
    std::string name = memory.getSymName().str();
    auto type = RankedTensorType::get({}, cast<RankedTensorType>(value.getType()).getElementType());
    auto zero = createConstant(
        builder, sum.getLoc(), names.unique(name + "/zero"),
        DenseElementsAttr::get(type, builder.getFloatAttr(type.getElementType(), 0)));
    auto added = createNode(builder, sum.getLoc(), "Add", names.unique(name + "/added"),
                            {value, zero.getResult(0)}, {}, origin);
    zero.setOriginAttr(added.getOriginAttr());
    zero.setRate(Rate::Once);
    added.setRate(Rate::Microbatch);
    sum.getValueMutable().assign(added.getResult(0));
  }
}

void Labels::labelEvaluatePhases() {
  for (auto node : function.getOps<NodeOp>())
    node.setPhase(ir::Phase::Evaluate);
}

/// In reverse, since a node's phase follows from its readers'. What updates alone read of weights,
/// such as a norm, is theirs to make and no version's.
void Labels::labelTrainPhases() {
  SmallVector<NodeOp> nodes(function.getOps<NodeOp>());
  for (NodeOp node : llvm::reverse(nodes)) {
    if (node.getRate() == Rate::Version && feedsOnlyUpdates(node))
      node.setRate(Rate::Update);
    node.setPhase(trainPhase(node));
  }
}

bool Labels::feedsOnlyUpdates(NodeOp node) {
  return !node->use_empty() && llvm::all_of(node->getUsers(), [](Operation *user) {
    auto reader = dyn_cast<NodeOp>(user);
    return reader && reader.getPhase() == ir::Phase::Update;
  });
}

ir::Phase Labels::trainPhase(NodeOp node) {
  if (node.getRate() == Rate::Update)
    return ir::Phase::Update;
  if (isPrepared(node))
    return ir::Phase::Prepare;
  if (!node.getOrigin())
    return ir::Phase::Forward;
  return feedsOnlySums(node) ? ir::Phase::BackwardWeight : ir::Phase::BackwardInput;
}

/// Whether only gradient sums of its own forward node need it: what another node's backward pass
/// reads must not wait.
bool Labels::feedsOnlySums(NodeOp node) {
  return llvm::all_of(node->getUsers(), [&](Operation *user) {
    auto reader = dyn_cast<NodeOp>(user);
    return isa<AccumulateOp>(user) || (reader && reader.getOriginAttr() == node.getOriginAttr() &&
                                       reader.getPhase() == ir::Phase::BackwardWeight);
  });
}

/// Work on weights or constants alone is done once per version, not for each microbatch.
bool Labels::isPrepared(NodeOp node) {
  return *node.getRate() <= Rate::Version && !isConstant(node);
}

/// Whether the use is by the passes that run per microbatch.
bool isOutsidePreparation(OpOperand &use) {
  auto reader = dyn_cast<NodeOp>(use.getOwner());
  return !reader || reader.getPhase() != ir::Phase::Prepare;
}

/// What the forward and backward passes read of prepared values goes through memory. A view costs
/// nothing, so it is taken where it is read instead.
void Labels::hoistPreparation() {
  SmallVector<NodeOp> prepared;
  for (auto node : function.getOps<NodeOp>())
    if (node.getPhase() == ir::Phase::Prepare)
      prepared.push_back(node);
  for (NodeOp node : llvm::reverse(prepared)) {
    const Operator *rules = findOperator(node.getOp());
    if (rules && rules->kind == OperatorClass::view && node.getNumResults() == 1)
      takeViewOutside(node);
  }
  for (NodeOp node : prepared)
    if (node.getPhase() == ir::Phase::Prepare)
      for (Value result : node.getResults())
        keepInMemory(result);
}

void Labels::takeViewOutside(NodeOp view) {
  Value result = view.getResult(0);
  bool isReadInside = !llvm::all_of(result.getUses(), isOutsidePreparation);
  if (result.use_empty() || !llvm::any_of(result.getUses(), isOutsidePreparation))
    return;
  if (isReadInside) {
    OpBuilder builder(view);
    auto inside = cast<NodeOp>(builder.clone(*view));
    inside.setName((view.getName() + "/prepared").str());
    result.replaceUsesWithIf(inside.getResult(0),
                             [](OpOperand &use) { return !isOutsidePreparation(use); });
  }
  view.setPhase(view.getOrigin() ? ir::Phase::BackwardInput : ir::Phase::Forward);
}

void Labels::keepInMemory(Value value) {
  if (!llvm::any_of(value.getUses(), isOutsidePreparation))
    return;
  auto node = value.getDefiningOp<NodeOp>();
  std::string name = (node.getName() + "/prepared").str();
  if (unsigned number = cast<OpResult>(value).getResultNumber())
    name += "_" + std::to_string(number + 1);
  OpBuilder outside(module.getBodyRegion());
  outside.setInsertionPoint(function);
  auto memory = createMemory(symbols, outside, node.getLoc(), name, Role::Derived, *node.getRate(),
                             value.getType());
  OpBuilder builder(node->getBlock(), std::next(node->getIterator()));
  builder.create<WriteOp>(node.getLoc(), value, memory.getSymName());
  auto read = builder.create<WeightVersionOp>(node.getLoc(), value.getType(), memory.getSymName(),
                                              Version::Latest);
  value.replaceUsesWithIf(read.getValue(), [&](OpOperand &use) {
    return isOutsidePreparation(use) && !isa<WriteOp>(use.getOwner());
  });
}

struct LabelPhases : pdc::impl::LabelPhasesBase<LabelPhases> {
  void runOnOperation() override {
    auto body = [&] {
      for (auto function : getOperation().getOps<func::FuncOp>())
        if (failed(label(function)))
          return failure();
      return success();
    };
    if (failed(runChecked(getOperation(), body)))
      signalPassFailure();
  }

private:
  static LogicalResult label(func::FuncOp function) {
    Labels labels(function);
    if (failed(labels.labelRates()))
      return failure();
    if (function.getSymName() == "evaluate") {
      labels.labelEvaluatePhases();
      return success();
    }
    labels.addWhatIsTheSame();
    labels.labelTrainPhases();
    labels.hoistPreparation();
    return success();
  }
};

} // namespace
