#pragma once

#include "compiler/operators/Composition.h"

namespace pdc {

/// Functions of a direction that attribute `activations` names.
constexpr size_t activationsPerDirection(int64_t gates) {
  return gates == 4 ? 3 : gates == 3 ? 2 : 1;
}

/// Refuses an LSTM (4 gates), GRU (3) or RNN (1) whose inputs or attributes no rule knows: X
/// [steps, batch, size], W [directions, gates * hidden, size], R [directions, gates * hidden,
/// hidden], B [directions, 2 * gates * hidden], sequence_lens [batch], initial_h and initial_c
/// [directions, batch, hidden], P [directions, 3 * hidden]; with layout 1 the batch of X is first.
void checkRecurrentForm(CompositionBuilder &builder, int64_t gates);

} // namespace pdc
