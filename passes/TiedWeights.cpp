#include "passes/TiedWeights.h"

#include "passes/Values.h"

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

WeightFamilies::WeightFamilies(ModuleOp module) {
  module.walk([&](CommitOp commit) { families.insert(commit.getMemory().str()); });
  for (auto function : module.getOps<func::FuncOp>())
    for (Operation &op : function.getOps())
      follow(op);
}

void WeightFamilies::follow(Operation &op) {
  if (isRead(&op)) {
    std::string memory = memoryOf(&op).getValue().str();
    if (families.findValue(memory) != families.end())
      made[op.getResult(0)] = memory;
    return;
  }
  if (auto write = dyn_cast<WriteOp>(op); write && made.contains(write.getValue()))
    families.unionSets(made[write.getValue()], write.getMemory().str());
  auto unit = dyn_cast<UnitOp>(op);
  if (!unit || unit.getRate() != Rate::Version)
    return;
  std::string first;
  for (Value operand : unit.getOperands())
    if (auto found = made.find(operand); found != made.end()) {
      first = first.empty() ? found->second : first;
      families.unionSets(first, found->second);
    }
  for (Value result : unit.getResults())
    if (!first.empty())
      made[result] = first;
}

std::string WeightFamilies::of(Value value) const {
  auto found = made.find(value);
  return found == made.end() ? "" : families.getLeaderValue(found->second);
}

std::vector<WeightFamilies::Use> WeightFamilies::usesIn(func::FuncOp function) const {
  std::vector<Use> uses;
  for (UnitOp unit : function.getOps<UnitOp>())
    for (OpOperand &operand : unit->getOpOperands())
      if (std::string family = of(operand.get());
          unit.getRate() == Rate::Microbatch && !family.empty())
        uses.push_back({unit, &operand, family});
  return uses;
}

} // namespace pdc
