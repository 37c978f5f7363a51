#pragma once

#include "compiler/operators/Operator.h"

namespace pdc {

/// An attribute of a Slice that stands for an element of a sequence: the shape rule refuses an
/// empty result, for then the element is not there.
inline constexpr const char *kRefusesEmpty = "refuses_empty";

/// What a Slice takes of a tensor: along dimension d, `count[d]` elements from `start[d]` in steps
/// of `step[d]`.
struct SliceRange {
  std::vector<int64_t> start, step, count;
};

/// Of a tensor of that shape; inputs from `first` on are starts, ends, axes and steps, as ONNX's
/// Slice has them. Throws Error where they are not known or do not fit.
SliceRange resolveSlice(const NodeView &node, const std::vector<int64_t> &shape, size_t first);

} // namespace pdc
