#pragma once

#include "compiler/ir/Pdc.h"

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

/// A kernel object of a stage.
struct KernelMember {
  std::string name;
  ir::KernelAttr kernel;
  std::string nodes;
};

/// The kernels of a stage in order of first use. Units of the same name share a kernel.
std::vector<KernelMember> kernelMembers(ir::StageOp stage);

/// `conv1_(device, {.group = 1, ...}` between `lead` and `closing`.
std::string memberInitialiser(llvm::StringRef lead, llvm::StringRef name, ir::KernelAttr kernel,
                              llvm::StringRef closing);

} // namespace pdc
