#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir {
class PatternRewriter;
}

namespace pdc::ir {

/// Refuses operands that no operation of this dialect makes and tensors that pdc has no kernels
/// for.
llvm::LogicalResult verifyKnownValues(mlir::Operation *op);

template <class Concrete>
class KnownValues : public mlir::OpTrait::TraitBase<Concrete, KnownValues> {
public:
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) { return verifyKnownValues(op); }
};

} // namespace pdc::ir

#include "compiler/ir/PdcDialect.h.inc"
#include "compiler/ir/PdcEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/ir/PdcAttributes.h.inc"

#define GET_OP_CLASSES
#include "compiler/ir/PdcOps.h.inc"
