#pragma once

#include "compiler/ir/Pdc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace pdc {

/// Whether a value lies in memory of its microbatch from the forward pass to the backward pass.
using IsStashed = llvm::function_ref<bool(mlir::Value)>;

/// Of each unit of a function, in its order: the bytes of the values that live while it runs, in
/// its task and in no memory. Views live in what they show.
llvm::DenseMap<mlir::Operation *, int64_t> liveBytes(mlir::func::FuncOp function,
                                                     IsStashed isStashed);

} // namespace pdc
