#include "passes/UnitFacts.h"
#include "passes/Nodes.h"

using namespace mlir;
using pdc::ir::NodeOp;
using pdc::ir::UnitOp;
using pdc::ir::YieldOp;

namespace pdc {

UnitFacts::UnitFacts(UnitOp op) : name(op.getName()) {
  Block &body = op.getBody().front();
  for (Value argument : body.getArguments()) {
    find(argument);
    unit.operandLayouts.push_back(layoutOf(argument.getType()).str());
  }
  for (auto node : body.getOps<NodeOp>())
    add(node);
  for (Value result : cast<YieldOp>(body.getTerminator()).getValues())
    unit.results.push_back(find(result));
  unit.name = name;
  unit.isSummed = op.getNumResults() > 0 && op.getResults().back().hasOneUse() &&
                  isa<ir::AccumulateOp>(*op.getResults().back().user_begin());
  unit.isWritten =
      llvm::any_of(op->getUsers(), [](Operation *user) { return isa<ir::WriteOp>(user); });
}

UnitFacts::UnitFacts(ArrayRef<NodeOp> nodes, NodeOp candidate)
    : name(nodes.empty() ? candidate.getName() : nodes.front()->getAttrOfType<StringAttr>("name")) {
  for (NodeOp node : nodes)
    addConstants(node);
  if (candidate)
    addConstants(candidate);
  for (NodeOp node : nodes)
    add(node);
  for (NodeOp node : nodes)
    for (Value result : node->getResults())
      if (llvm::any_of(result.getUsers(),
                       [&](Operation *user) { return !llvm::is_contained(nodes, user); }))
        unit.results.push_back(find(result));
  if (candidate)
    describe(candidate);
  unit.name = name;
}

void UnitFacts::addConstants(NodeOp node) {
  for (Value operand : node->getOperands())
    if (isConstant(operand.getDefiningOp()) && !known.contains(operand))
      add(cast<NodeOp>(operand.getDefiningOp()));
}

void UnitFacts::add(NodeOp node) {
  unit.nodes.push_back(describe(node));
  for (auto [i, result] : llvm::enumerate(node->getResults()))
    known[result] = UnitValue::node(static_cast<int>(unit.nodes.size()) - 1, static_cast<int>(i));
}

UnitNode UnitFacts::describe(NodeOp node) {
  UnitNode described{std::string_view(node.getOp()),
                     std::string_view(node.getName()),
                     &attributes.emplace_back(toAttributes(node.getOnnxAttributes())),
                     {},
                     {}};
  for (Value operand : node->getOperands())
    described.inputs.push_back(find(operand));
  for (Type type : node->getResultTypes())
    described.outputs.push_back(toTensorType(type));
  return described;
}

/// A value from outside becomes an operand when it is met first.
UnitValue UnitFacts::find(Value value) {
  auto [entry, isNew] = known.try_emplace(value, UnitValue());
  if (!isNew || value.getDefiningOp<ir::AbsentOp>())
    return entry->second;
  bool absent = isa<NoneType>(value.getType());
  entry->second = UnitValue::operand(static_cast<int>(unit.operands.size()));
  unit.operands.push_back(absent ? std::nullopt : std::optional(toTensorType(value.getType())));
  return entry->second;
}

} // namespace pdc
