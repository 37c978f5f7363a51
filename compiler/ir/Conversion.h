#pragma once

#include "compiler/ir/Pdc.h"
#include "compiler/operators/Operator.h"

#include <optional>

namespace pdc {

/// Between the plain structs of compiler/operators and MLIR's types and attributes. A boolean is i1,
/// unsigned bytes are ui8; integers are signless.
mlir::Type toMlir(mlir::MLIRContext *context, ElementType element);
std::optional<ElementType> findElementType(mlir::Type type);
/// Throws Error for another type.
ElementType toElementType(mlir::Type type);
mlir::RankedTensorType toMlir(mlir::MLIRContext *context, const TensorType &type,
                              llvm::StringRef layout = "");
/// Throws Error when the tensor has no static shape.
TensorType toTensorType(mlir::Type type);
/// The layout's tag; empty for row-major.
llvm::StringRef layoutOf(mlir::Type type);
mlir::RankedTensorType withLayout(mlir::Type type, llvm::StringRef layout);

mlir::DictionaryAttr toMlir(mlir::MLIRContext *context, const Attributes &attributes);
mlir::Attribute toMlir(mlir::MLIRContext *context, const Attribute &attribute);
Attributes toAttributes(mlir::DictionaryAttr dictionary);
mlir::DenseElementsAttr toMlir(mlir::MLIRContext *context, const Tensor &tensor);
Tensor toTensor(mlir::DenseElementsAttr elements);

} // namespace pdc
