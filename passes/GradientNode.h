#pragma once

#include "passes/Nodes.h"

namespace pdc {

/// ONNX's operator that differentiates a value of its own graph.
inline constexpr llvm::StringLiteral gradientOperator = "ai.onnx.preview.training.Gradient";

/// Puts the backward nodes of the value that the node names last in its place, and gives what
/// replaces its results: the gradients by its first operands. All nodes before it are inferred.
/// Throws Error.
llvm::SmallVector<mlir::Value> replaceGradient(ir::NodeOp gradient, NodeNames &names);

} // namespace pdc
