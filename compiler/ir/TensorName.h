#pragma once

#include "compiler/ir/Pdc.h"

namespace pdc {

/// Of an input that stages of a rank have a memory of their own for: the input's name.
inline constexpr const char kTensorNameAttribute[] = "tensor_name";

/// The name of a memory in files, data and checkpoints.
inline llvm::StringRef tensorNameOf(ir::MemoryOp memory) {
  auto name = memory->getAttrOfType<mlir::StringAttr>(kTensorNameAttribute);
  return name ? name.getValue() : memory.getSymName();
}

} // namespace pdc
