#pragma once

#include "compiler/ir/Pdc.h"

#include <set>
#include <string>
#include <vector>

namespace pdc {

/// The members of a unit's kernel field, a list of integers; throws Error where it is none.
llvm::ArrayRef<int64_t> fieldOf(ir::UnitOp unit, llvm::StringRef name);

/// Whether a unit's loop is printed instead of a call.
bool isBroadcast(ir::UnitOp unit);
bool isElementwise(ir::UnitOp unit);

/// Whether it is a unit whose kernel on GPUs updates all weights of a task together.
bool isSharedUpdate(mlir::Operation &op);

/// The ONNX names of a unit's nodes, for a comment.
std::string nodeNames(ir::UnitOp unit);

/// The runtime's kernel classes that a program uses, sorted.
std::vector<std::string> kernelClasses(ir::ProgramOp program);

/// A kernel object of a stage, named after the first unit that it computes.
struct KernelMember {
  std::string name;
  ir::KernelAttr kernel;
  std::string nodes; ///< of that unit
  int units = 0;     ///< that it computes
  std::set<std::string> names = {}; ///< which errors would give them
};

/// The kernels of a stage. Units whose kernels differ in nothing but the name that errors give them
/// share one: kernels keep nothing from call to call that belongs to a unit.
class StageKernels {
public:
  explicit StageKernels(ir::StageOp stage);
  /// In order of first use.
  llvm::ArrayRef<KernelMember> members() const { return all; }
  llvm::StringRef nameFor(ir::UnitOp unit) const { return all[places.at(unit)].name; }

private:
  std::vector<KernelMember> all;
  llvm::DenseMap<mlir::Operation *, size_t> places; ///< by unit
};

/// `conv1_(device, {.group = 1, ...}` between `lead` and `closing`.
std::string memberInitialiser(llvm::StringRef lead, llvm::StringRef name, ir::KernelAttr kernel,
                              llvm::StringRef closing);

} // namespace pdc
