#pragma once

#include "compiler/devices/Device.h"
#include "passes/Nodes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/StringMap.h"

#include <map>

namespace pdc {

/// Brings values to the layouts that kernels want. Weights and constants are stored in the layout
/// that their first reader wants, with their gradients and optimizer state; a reader that wants
/// another one gets a derived copy, made once per version. Any other value is reordered where it is
/// read.
class LayoutChanges {
public:
  LayoutChanges(mlir::ModuleOp module, const DeviceOptions &options);

  /// Where `cast` prepares a weight: a cast runs over the weight as it lies, so the weight is laid
  /// out for the first reader of the cast.
  void layOutForReaders(ir::UnitOp cast);
  /// `value` in `layout` for `unit`. Throws Error.
  mlir::Value forUnit(mlir::Value value, llvm::StringRef layout, ir::UnitOp unit);
  /// `value` in the layout of the memory that `user` puts it into.
  mlir::Value forMemory(mlir::Value value, llvm::StringRef memory, mlir::Operation *user);

private:
  /// A memory by its name. Layouts are set weight by weight, of which a model has thousands.
  struct Named {
    ir::MemoryOp memory;
    llvm::SmallVector<mlir::Value, 2> reads;      ///< in all functions
    llvm::SmallVector<ir::MemoryOp, 2> followers; ///< a weight's gradients and optimizer state
    ir::WriteOp written;                          ///< the last one in @train
  };
  mlir::Value readLatest(ir::MemoryOp memory, mlir::OpBuilder &builder);
  ir::MemoryOp memoryNamed(llvm::StringRef name);
  std::string unusedName(const llvm::Twine &base);
  ir::MemoryOp storedMemory(mlir::Value value);
  void fix(ir::MemoryOp memory, llvm::StringRef layout);
  std::string wantedBy(ir::UnitOp unit, unsigned operand);
  void setLayout(ir::MemoryOp memory, llvm::StringRef layout);
  mlir::Value derived(ir::MemoryOp memory, llvm::StringRef layout, ir::UnitOp reader);
  ir::MemoryOp makeDerived(ir::MemoryOp memory, llvm::StringRef layout, llvm::StringRef origin);
  mlir::Value shared(mlir::Value value, llvm::StringRef layout, const UnitPlace &place,
                     mlir::OpBuilder &builder);
  ir::UnitOp reorder(mlir::Value value, llvm::StringRef layout, const UnitPlace &place,
                     mlir::OpBuilder &builder);

  mlir::SymbolTable symbols;
  mlir::func::FuncOp train;
  llvm::StringMap<Named> memories;
  /// Of each function.
  std::map<mlir::Operation *, NodeNames> names;
  const DeviceOptions &options;
  llvm::DenseSet<mlir::Operation *> fixed;
  /// Derived memory by source, layout and origin, and its reads by function and memory.
  std::map<std::tuple<std::string, std::string, std::string>, ir::MemoryOp> derivedMemories;
  llvm::DenseMap<std::pair<mlir::Operation *, mlir::Operation *>, mlir::Value> derivedReads;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<ir::UnitOp>> reorders;
};

/// Sets kernel, workspace and result layouts of a unit as the device chose them. Operands and block
/// arguments are in the kernel's order already.
void applyChoice(ir::UnitOp unit, const KernelChoice &choice);

} // namespace pdc
