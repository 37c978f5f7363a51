#pragma once

#include "compiler/interpreter/Interpreter.h"
#include "compiler/operators/Tensor.h"

namespace pdc::interpreter {

/// A tensor that is a pure function of seed, name and number. Floating-point elements lie in
/// [low, high); integers are 0 or 1, which is a label of any classifier and a row of any table.
Tensor draw(const InterpreterInput &input, const std::string &name, int64_t number,
            const TensorType &type, double low, double high);

/// The first contents of a memory: given, its `initial` number, or drawn.
Tensor initialValue(const InterpreterInput &input, ir::MemoryOp memory);

/// A model input for one microbatch; evaluation has inputs of its own.
Tensor microbatchInput(const InterpreterInput &input, ir::MemoryOp memory, int64_t microbatch,
                       bool evaluation);

/// Seed, step and the global number of each sample: what Dropout draws from.
Tensor randomNumbers(const InterpreterInput &input, const TensorType &type, int64_t step,
                     int64_t microbatch);

} // namespace pdc::interpreter
