#pragma once

#include "compiler/operators/Composition.h"

#include <vector>

namespace pdc {

/// What a recurrent operator multiplies with and adds, with the gates as the framework had them
/// that exported it.
struct OrderedGates {
  NodeValue inputWeights, stateWeights; ///< [gates hidden, ...]
  NodeValue inputBias, stateBias;       ///< [gates hidden]; null where there is none
  std::vector<int64_t> places;          ///< of the operator's gates in them
};

/// Exporters bring gates into ONNX's order by slices of each weight and bias, which a step would
/// repeat and its gradients undo. Finds what they are slices of, for a direction of an LSTM or GRU:
/// nothing where they are made otherwise, or not all in one order.
std::optional<OrderedGates> findOrderedGates(const CompositionBuilder &builder, int64_t gates,
                                             int64_t direction);

} // namespace pdc
