#include "compiler/interpreter/Levels.h"

#include "compiler/Error.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <set>

namespace pdc::interpreter {

using ir::Phase;
using ir::Rate;
using Operations = std::vector<mlir::Operation *>;

static bool isDerived(Machine &machine, llvm::StringRef memory) {
  return machine.get(memory).role == ir::Role::Derived;
}

namespace {

/// Sorts the operations of @train by how often they run.
class TrainBody {
public:
  TrainBody(Machine &machine, mlir::func::FuncOp function) : machine(machine) {
    if (!function.getBody().hasOneBlock())
      throw Error("function @" + function.getSymName().str() + " is not one block of operations");
    for (mlir::Operation &op : function.getBody().front().without_terminator())
      all.push_back(&op);
  }

  /// What fills derived memories (packed weights), with what that needs.
  Operations prepare() {
    return slice([&](mlir::Operation *op) { return writesDerived(op); });
  }

  Operations microbatch() {
    Operations result;
    for (mlir::Operation *op : all)
      if (rateOf(op) != Rate::Update && !writesDerived(op))
        result.push_back(op);
    return result;
  }

  /// What runs once after the microbatches, with the weights that it reads.
  Operations update() {
    return slice([&](mlir::Operation *op) { return rateOf(op) == Rate::Update; });
  }

  const Operations &everything() const { return all; }

private:
  bool writesDerived(mlir::Operation *op) {
    auto write = llvm::dyn_cast<ir::WriteOp>(op);
    return write && isDerived(machine, write.getMemory());
  }

  Rate ownRate(mlir::Operation *op) {
    if (auto read = llvm::dyn_cast<ir::ReadOp>(op))
      return machine.get(read.getMemory()).op.getRate();
    return llvm::isa<ir::WeightVersionOp>(op) ? Rate::Version : Rate::Once;
  }

  /// The fastest of its operands' rates; update rate starts where a sum or an update's input is
  /// read.
  Rate rateOf(mlir::Operation *op) {
    auto known = rates.find(op);
    if (known != rates.end())
      return known->second;
    Rate rate = ownRate(op);
    bool microbatch = rate == Rate::Microbatch;
    for (mlir::Value operand : op->getOperands())
      if (mlir::Operation *producer = operand.getDefiningOp()) {
        Rate other = rateOf(producer);
        microbatch |= other == Rate::Microbatch;
        rate = std::max(rate, other);
      }
    if (microbatch && rate == Rate::Update)
      throw Error("operation '" + nameOf(op) +
                  "' mixes values of one microbatch with values of a whole update; expected a "
                  "pdc.accumulate between them");
    return rates[op] = rate;
  }

  static std::string nameOf(mlir::Operation *op) {
    if (auto node = llvm::dyn_cast<ir::NodeOp>(op))
      return node.getName().str();
    if (auto unit = llvm::dyn_cast<ir::UnitOp>(op))
      return unit.getName().str();
    return op->getName().getStringRef().str();
  }

  /// The operations that `wanted` names and everything they need, in order.
  template <class Wanted> Operations slice(Wanted wanted) {
    std::set<mlir::Operation *> needed;
    Operations result;
    for (size_t i = all.size(); i-- > 0;) {
      mlir::Operation *op = all[i];
      if (!needed.contains(op) && !wanted(op))
        continue;
      result.push_back(op);
      for (mlir::Value operand : op->getOperands())
        needed.insert(operand.getDefiningOp());
    }
    std::reverse(result.begin(), result.end());
    return result;
  }

  Machine &machine;
  Operations all;
  std::map<mlir::Operation *, Rate> rates;
};

} // namespace

static void train(Machines &machines, Machine &machine, mlir::func::FuncOp function) {
  TrainBody body(machine, function);
  Operations prepare = body.prepare();
  machine.run(prepare, {0, Phase::Prepare, 0});
  // Each microbatch is its own update, and nothing is summed between: one body.
  Operations update = machines.asynchronous ? Operations() : body.update();
  Operations microbatch = machines.asynchronous ? body.everything() : body.microbatch();
  for (int64_t step = 0; step < machines.input.updates; ++step) {
    int64_t first = step * machines.microbatches, last = first + machines.microbatches - 1;
    for (int64_t m = first; m <= last; ++m)
      machine.run(microbatch, {0, Phase::Forward, m});
    machine.run(update, {0, Phase::Update, last});
    machine.run(prepare, {0, Phase::Prepare, last});
  }
}

void runGraph(Machines &machines, mlir::ModuleOp module) {
  machines.machines.push_back(
      std::make_unique<Machine>(machines, "graph", 0, module.getBodyRegion()));
  Machine &machine = *machines.machines.front();
  if (auto function = module.lookupSymbol<mlir::func::FuncOp>("train"))
    train(machines, machine, function);
  auto function = module.lookupSymbol<mlir::func::FuncOp>("evaluate");
  for (int64_t m = 0; function && m < machines.input.evaluations; ++m) {
    TrainBody body(machine, function);
    machine.run(body.everything(), {0, Phase::Evaluate, m});
  }
}

} // namespace pdc::interpreter
