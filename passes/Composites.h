#pragma once

#include "passes/Nodes.h"

#include <optional>

/// How the patterns of recognise-composites read what exporters have written.
namespace pdc {

/// The node of that operator which makes a value, or null.
ir::NodeOp maker(mlir::Value value, llvm::StringRef op);

/// A constant of one element.
std::optional<double> numberOf(mlir::Value value);

/// What is written in a pattern's place. A null operand is one that is left out.
struct Composite {
  llvm::StringRef op;
  llvm::SmallVector<mlir::Value> operands;
  Attributes attributes = {};
  size_t results = 1;
  /// So many of the first operands, and the first result, get a first dimension of 1 that they do
  /// not have in the pattern.
  size_t widened = 0;
};

/// Softmax attention of several heads, from its last node: the product with the values, or a
/// transposition of its result to [batch, rows, heads, width]. Where an exporter has taken batch
/// and heads together, as PyTorch's nn.MultiheadAttention does, they are the heads of one sample.
std::optional<Composite> matchAttention(ir::NodeOp root);

} // namespace pdc
