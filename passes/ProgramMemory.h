#pragma once

#include "compiler/ir/Pdc.h"
#include "compiler/plan/Plan.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSet.h"

namespace pdc {

/// What kernels bring into a process for itself beside its arena, beyond a program that has only
/// been started: what libraries keep, and the code that they generate.
class LibraryUse {
public:
  /// Units without a kernel bring nothing.
  void add(ir::UnitOp unit);
  void add(const LibraryUse &other);

  /// What a process takes once, however many of its threads are ranks.
  int64_t bytesOfProcess() const;
  /// What each rank takes beside that.
  int64_t bytesOfRank() const;

private:
  bool plain = false; ///< oneDNN multiplies some matrices as plain ones
  /// Names of kernels that are objects and run primitives of oneDNN, which generates code once for
  /// all that differ in their names alone.
  llvm::DenseMap<mlir::Attribute, llvm::StringSet<>> calls;
  llvm::StringSet<> kernels; ///< others that are objects, by name
};

/// Puts into a plan what its stages take as they are laid out: the arena of their rank's program,
/// split among its stages, and what libraries take. Programs have arenas after plan-memory.
void setMemory(Plan &plan, mlir::ModuleOp programs);

} // namespace pdc
