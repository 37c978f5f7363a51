#include "passes/LegalNames.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/Values.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"

#include <map>

namespace pdc {
#define GEN_PASS_DEF_NAMEVALUES
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

/// Names one program. A name means one place in the whole program, so that a reader can search it;
/// kernels have names of their own.
class ProgramNames {
public:
  explicit ProgramNames(ProgramOp program) : program(program), symbols(program) {}

  void assign() {
    expectAll();
    for (auto memory : program.getOps<MemoryOp>()) {
      memory.setVariable(names.unique(memory.getSymName()));
      variables[memory.getSymName()] = memory.getVariable()->str();
    }
    for (auto stage : program.getOps<StageOp>())
      for (auto task : stage.getOps<TaskOp>())
        for (auto unit : task.getOps<UnitOp>())
          name(unit);
  }

private:
  void expectAll() {
    for (auto memory : program.getOps<MemoryOp>())
      names.expect(memory.getSymName());
    program.walk([&](UnitOp unit) {
      kernels.expect((prefix(unit) + unit.getName()).str());
      for (Value result : unit.getResults())
        if (!findStore(result))
          names.expect((prefix(unit) + tensorName(result)).str());
    });
  }

  void name(UnitOp unit) {
    SmallVector<mlir::Attribute> results;
    for (Value result : unit.getResults())
      results.push_back(StringAttr::get(unit.getContext(), nameOf(unit, result)));
    unit.setResultVariablesAttr(ArrayAttr::get(unit.getContext(), results));
    unit.setVariable(kernelName(unit));
  }

  /// A unit that runs twice has one kernel, unless its second run keeps other values than the
  /// first.
  std::string kernelName(UnitOp unit) {
    auto &[first, kernel] = firstRuns[unit.getName()];
    if (!isRecomputed(unit) || first.empty() || kernel != unit.getKernelAttr()) {
      first = kernels.unique((prefix(unit) + unit.getName()).str());
      kernel = unit.getKernelAttr();
    }
    return first;
  }

  static StringRef prefix(UnitOp unit) {
    auto task = unit->getParentOfType<TaskOp>();
    if (isRecomputed(unit))
      return "recomputed_";
    return task.getPhase() == ir::Phase::Evaluate ? "evaluate_" : "";
  }

  /// A view is repeated in several tasks: one name for all of them. Another one is evaluation's
  /// view of what is prepared for it.
  std::string nameOf(UnitOp unit, Value result) {
    if (Operation *store = findStore(result))
      return isInPlace(unit, result, memoryOf(store)) ? variables[memoryOf(store).getValue()]
                                                      : storedName(store);
    std::string wanted = (prefix(unit) + tensorName(result)).str();
    if (!isView(unit))
      return names.unique(wanted);
    const bool isEvaluation = unit.getPhase() == ir::Phase::Evaluate;
    std::string &view = views[isEvaluation ? "evaluation's " + wanted : wanted];
    if (view.empty())
      view = names.unique(wanted);
    return view;
  }

  /// The memory operation that makes a value's home a memory's.
  static Operation *findStore(Value result) {
    for (Operation *user : result.getUsers()) {
      auto accumulate = dyn_cast<AccumulateOp>(user);
      if (isa<WriteOp, CommitOp>(user) || (accumulate && accumulate.getFused()))
        return user;
    }
    return nullptr;
  }

  /// Whether the memory's new value takes the place of the old one, which has but one name.
  bool isInPlace(UnitOp unit, Value result, FlatSymbolRefAttr name) {
    auto homes = unit.getHomesAttr();
    auto memory = symbols.lookup<MemoryOp>(name.getAttr());
    const unsigned number = cast<OpResult>(result).getResultNumber();
    return homes && memory && memory.getHomeAttr() &&
           homes[number] == mlir::Attribute(memory.getHomeAttr()) &&
           memory.getHomeAttr().getRegion() == "fixed" && memory.getHomeAttr().getOffset() >= 0;
  }

  /// What a task reads and writes anew needs two names: the old value's and the new one's.
  std::string storedName(Operation *store) {
    FlatSymbolRefAttr memory = memoryOf(store);
    std::string &variable = variables[memory.getValue()];
    if (!readIn(store->getBlock()).contains(memory.getAttr()))
      return variable;
    std::string &fresh = variables[("new " + memory.getValue()).str()];
    if (fresh.empty())
      fresh = names.unique("new_" + variable);
    return fresh;
  }

  /// The memories that a task reads.
  const llvm::DenseSet<StringAttr> &readIn(Block *task) {
    auto [found, isNew] = reads.try_emplace(task);
    if (!isNew)
      return found->second;
    for (Operation &op : *task)
      if (isRead(&op))
        found->second.insert(memoryOf(&op).getAttr());
    return found->second;
  }

  ProgramOp program;
  SymbolTable symbols;
  std::map<Block *, llvm::DenseSet<StringAttr>> reads;
  LegalNames names, kernels;
  llvm::StringMap<std::string> variables, views;
  llvm::StringMap<std::pair<std::string, KernelAttr>> firstRuns;
};

struct NameValues : impl::NameValuesBase<NameValues> {
  void runOnOperation() override {
    auto body = [&] {
      for (auto program : getOperation().getOps<ProgramOp>())
        ProgramNames(program).assign();
      return success();
    };
    if (failed(runChecked(getOperation(), body)))
      signalPassFailure();
  }
};

} // namespace
} // namespace pdc
