#pragma once

#include "compiler/ir/Pdc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace pdc {

/// Whether a value lies in memory of its microbatch from one task to another.
using IsStashed = llvm::function_ref<bool(mlir::Value)>;

/// By unit: the bytes of the values that live while it runs, in its task and in no memory. Views
/// live in what they show.
using LiveBytes = llvm::DenseMap<mlir::Operation *, int64_t>;

/// Of each unit of a function, in its order.
LiveBytes liveBytes(mlir::func::FuncOp function, IsStashed isStashed);

/// The same where all input gradients run before all weight gradients.
LiveBytes splitLiveBytes(mlir::func::FuncOp function, IsStashed isStashed);

} // namespace pdc
