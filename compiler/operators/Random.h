#pragma once

#include "compiler/operators/Tensor.h"

#include <string_view>

namespace pdc {

/// Operators whose results are random: what the operands are says nothing of them. `pdc.random`
/// (seed, step and the numbers of the samples) becomes their last operand at import, and `key` an
/// attribute.
bool drawsNumbers(std::string_view op);

/// Those of them that have no form that draws nothing, as Dropout has.
bool alwaysDraws(std::string_view op);

/// How many samples the elements of a drawn or dropped tensor are of, and how many each has. Where
/// the first dimension is a multiple of the samples, as many rows are of each, such as those of its
/// tokens or heads, and have the same numbers in microbatches of any size. What has another shape,
/// such as a weight whose rows are no multiple, belongs to the first sample as a whole: other numbers
/// per microbatch.
std::vector<int64_t> samplesAndElements(const std::vector<int64_t> &shape,
                                        const TensorType &random);

} // namespace pdc
