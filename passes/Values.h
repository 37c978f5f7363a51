#pragma once

#include "compiler/ir/Pdc.h"

#include <string>

namespace pdc {

/// A unit without kernel: its result is its first operand under another shape.
bool isView(mlir::Operation *op);

/// What views show under another shape; null for null.
mlir::Value behindViews(mlir::Value value);

/// The unit's operand that a node in it reads; null for what is made in the unit.
mlir::Value operandBehind(ir::UnitOp unit, mlir::Value read);

/// Whether a unit only puts values beside one another.
bool isStack(ir::UnitOp unit);

/// Whether the operation is a unit of the forward pass that runs again in a backward task, or a
/// view of what such a unit makes.
bool isRecomputed(mlir::Operation *op);

/// Bytes of a value in its layout, padding included.
int64_t bytesOf(mlir::Type type);

/// The user's name of a value: the node that makes it, behind a colon the operator's word for a
/// result that is not its first ("/norm/BatchNormalization:saved_mean"), or its number where there
/// is none; the memory's name for what is read from one.
std::string tensorName(mlir::Value value);

/// The memory that a read, write, commit or accumulate names; null for other operations.
mlir::FlatSymbolRefAttr memoryOf(mlir::Operation *op);

/// Whether something between a store and a place behind it reads or stores into its memory, as a
/// layer does that is used again and keeps running statistics.
bool isUsedBefore(mlir::Operation *store, mlir::Operation *place);

/// Whether the operation gives a memory a value (write, commit, accumulate), and which.
mlir::Value storedValue(mlir::Operation *op);

/// Whether something between two operations of a block gives the memory a value.
bool isStoredBetween(mlir::FlatSymbolRefAttr memory, mlir::Operation *first, mlir::Operation *last);

/// Whether the operation's result is a memory's value (read, weight_version).
bool isRead(mlir::Operation *op);

/// The task of a unit. Backward work that is not split counts as backward.
ir::Phase taskPhase(ir::UnitOp unit);

} // namespace pdc
