#pragma once

#include "compiler/ir/Pdc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

#include <string>

namespace pdc {

/// Names of memories, unique in the module and the same in all programs.
class MemoryNames {
public:
  explicit MemoryNames(mlir::ModuleOp module);
  std::string unique(const std::string &wanted);

private:
  llvm::StringSet<> taken;
};

/// A value that leaves its stage: the memory that is its outbox there and an inbox elsewhere.
struct Crossing {
  std::string memory;
  llvm::SmallVector<mlir::Attribute> transfers;
  mlir::Attribute transferTo(int64_t stage) const;
};
using Crossings = llvm::MapVector<mlir::Value, Crossing>;

/// All cuts of the module's functions, tagged in their order.
Crossings findCrossings(mlir::ModuleOp module, MemoryNames &names);

/// A memory that staging adds.
struct NewMemory {
  std::string name;
  ir::Role role;
  mlir::Type type;
  llvm::SmallVector<mlir::Attribute> transfers;
};

/// Builds the tasks of one stage out of @train and @evaluate. Reads are repeated in each task; what
/// one task makes and another reads goes through a memory, unless it is a view, which is repeated.
class StageOutliner {
public:
  /// `prefix`: of its inboxes and inputs, where other stages of the program may have them too.
  /// `symbols`: of the module, before any program is there.
  StageOutliner(int64_t stage, std::string prefix, const mlir::SymbolTable &symbols,
                const Crossings &crossings, MemoryNames &names)
      : stage(stage), prefix(std::move(prefix)), symbols(symbols), crossings(crossings),
        names(names) {}

  /// Fills `target` with the five tasks; throws Error.
  void outline(ir::StageOp target, mlir::func::FuncOp train, mlir::func::FuncOp evaluate);

  /// A memory of the module as the stage's program calls it: each stage of a rank has inputs of its
  /// own, in its slots.
  mlir::StringAttr nameHere(ir::MemoryOp memory) const;

  /// The module's memories that the tasks touch.
  const llvm::SetVector<mlir::StringAttr> &touched() const { return touchedMemories; }
  const llvm::SmallVector<NewMemory> &added() const { return newMemories; }

private:
  struct TaskBody {
    ir::TaskOp op;
    mlir::IRMapping values;
  };

  void addOperations(TaskBody &task, mlir::func::FuncOp function);
  bool belongs(ir::UnitOp unit, TaskBody &task) const;
  bool isRepeated(ir::UnitOp unit, TaskBody &task) const;
  void addUnit(TaskBody &task, ir::UnitOp unit);
  void addStore(TaskBody &task, mlir::Operation *store);
  mlir::Value valueIn(TaskBody &task, mlir::Value value);
  mlir::Value readCopy(TaskBody &task, mlir::Operation *read);
  mlir::Value readInbox(TaskBody &task, ir::CutOp cut);
  mlir::Value readStored(TaskBody &task, mlir::Value value, ir::UnitOp producer);
  mlir::Value readNamed(TaskBody &task, mlir::Value value, const std::string &memory);
  mlir::Operation *cloneInto(TaskBody &task, mlir::Operation *op);
  const std::string &storageOf(mlir::Value value, ir::UnitOp producer);

  int64_t stage;
  std::string prefix;
  const mlir::SymbolTable &symbols;
  const Crossings &crossings;
  MemoryNames &names;
  std::vector<TaskBody> tasks;
  /// What the tasks have written so far, in the order in which a microbatch meets them, and the
  /// operation that did.
  llvm::DenseMap<mlir::StringAttr, mlir::Operation *> written;
  llvm::DenseMap<mlir::Value, std::string> storage;
  llvm::StringMap<std::string> inboxes; ///< by outbox
  llvm::StringSet<> prepared;
  llvm::SetVector<mlir::StringAttr> touchedMemories;
  llvm::SmallVector<NewMemory> newMemories;
};

} // namespace pdc
