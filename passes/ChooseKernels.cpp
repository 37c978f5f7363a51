#include "passes/LayoutChanges.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/UnitFacts.h"

namespace pdc {
#define GEN_PASS_DEF_CHOOSEKERNELS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// The unit's operands in the order and layouts of the kernel's pointers.
SmallVector<Value> kernelArguments(UnitOp unit, const KernelChoice &choice,
                                   LayoutChanges &layouts) {
  SmallVector<Value> arguments;
  OpBuilder builder(unit);
  for (auto [operand, layout] : llvm::zip_equal(choice.arguments, choice.inputLayouts)) {
    Value value = operand < 0 ? Value() : unit.getOperand(operand);
    if (!value || isa<NoneType>(value.getType()))
      arguments.push_back(createAbsent(builder, unit.getLoc()));
    else
      arguments.push_back(layouts.forUnit(value, layout, unit));
  }
  return arguments;
}

/// Gives the unit its new operands and a block argument for each.
void rebuild(UnitOp unit, const KernelChoice &choice, ArrayRef<Value> arguments) {
  Block &body = unit.getBody().front();
  unsigned before = body.getNumArguments();
  for (Value argument : arguments)
    body.addArgument(argument.getType(), argument.getLoc());
  for (unsigned i = 0; i < before; ++i) {
    auto found = llvm::find(choice.arguments, static_cast<int>(i));
    if (found != choice.arguments.end())
      body.getArgument(i).replaceAllUsesWith(
          body.getArgument(before + (found - choice.arguments.begin())));
    else if (!body.getArgument(i).use_empty())
      throw Error("kernel '" + choice.kernel + "' of unit '" + unit.getName().str() +
                  "' leaves out operand " + std::to_string(i));
  }
  body.eraseArguments(0, before);
  unit->setOperands(arguments);
}

void chooseFor(UnitOp unit, LayoutChanges &layouts, const DeviceOptions &options) {
  layouts.layOutForReaders(unit);
  for (auto [argument, operand] : llvm::zip(unit.getBody().getArguments(), unit.getOperands()))
    argument.setType(operand.getType());
  for (auto node : unit.getBody().getOps<NodeOp>())
    checkTypes(node);
  UnitFacts facts(unit);
  KernelChoice choice = chooseKernel(facts.view(), options);
  if (!choice.remark.empty())
    unit.emitWarning() << choice.remark;
  if (choice.kernel.empty() && choice.arguments.empty())
    return;
  if (choice.outputLayouts.size() != unit.getNumResults())
    throw Error("unit '" + unit.getName().str() + "' yields " +
                std::to_string(unit.getNumResults()) + " results, expected " +
                std::to_string(choice.outputLayouts.size()) + " of kernel " + choice.kernel +
                "; canonicalize removes nodes that nobody reads before form-units");
  rebuild(unit, choice, kernelArguments(unit, choice, layouts));
  applyChoice(unit, choice);
}

void choose(Operation &op, LayoutChanges &layouts, const DeviceOptions &options) {
  if (auto unit = dyn_cast<UnitOp>(op))
    return chooseFor(unit, layouts, options);
  if (auto write = dyn_cast<WriteOp>(op))
    op.setOperand(0, layouts.forMemory(write.getValue(), write.getMemory(), &op));
  if (auto commit = dyn_cast<CommitOp>(op))
    op.setOperand(0, layouts.forMemory(commit.getValue(), commit.getMemory(), &op));
  if (auto sum = dyn_cast<AccumulateOp>(op))
    op.setOperand(0, layouts.forMemory(sum.getValue(), sum.getMemory(), &op));
}

LogicalResult chooseIn(func::FuncOp function, LayoutChanges &layouts,
                       const DeviceOptions &options) {
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    if (isa<NodeOp>(op) && !isConstant(&op))
      return op.emitError() << "a node outside of units; run form-units first";
    if (!refuseAt(&op, [&] { choose(op, layouts, options); }))
      return failure();
  }
  return success();
}

void eraseUnused(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

struct ChooseKernels : pdc::impl::ChooseKernelsBase<ChooseKernels> {
  using ChooseKernelsBase::ChooseKernelsBase;

  void runOnOperation() override {
    if (failed(runChecked(getOperation(), [&] { return run(); })))
      signalPassFailure();
  }

private:
  /// @train first: its forward pass decides the layouts of weights. Reads stay until all are
  /// decided.
  LogicalResult run() {
    DeviceOptions options{exact, static_cast<int>(threads), static_cast<int>(vectorWidth),
                          deviceKind(device), precisionNamed(precision)};
    requirePrecision(device.getValue(), options.precision);
    LayoutChanges layouts(getOperation(), options);
    SmallVector<func::FuncOp> functions;
    for (StringRef name : {"train", "evaluate"})
      if (auto function = getOperation().lookupSymbol<func::FuncOp>(name))
        functions.push_back(function);
    for (func::FuncOp function : functions)
      if (failed(chooseIn(function, layouts, options)))
        return failure();
    llvm::for_each(functions, eraseUnused);
    return success();
  }
};

} // namespace
