#pragma once

#include "compiler/onnx/Model.h"

namespace pdc {

/// Refuses arithmetic on constants that are held in i64 instead of their own integer type: where
/// that would wrap, the results were others. What moves, compares or casts them is the same in
/// both.
void refuseWidenedArithmetic(const Model &model);

} // namespace pdc
