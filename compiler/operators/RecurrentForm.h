#pragma once

#include "compiler/operators/Composition.h"

namespace pdc {

/// Refuses an LSTM (4 gates), GRU (3) or RNN (1) whose inputs or attributes no rule knows: X
/// [steps, batch, size], W [directions, gates * hidden, size], R [directions, gates * hidden,
/// hidden], B [directions, 2 * gates * hidden], sequence_lens [batch], initial_h and initial_c
/// [directions, batch, hidden], P [directions, 3 * hidden]; with layout 1 the batch of X and of the
/// initial states is first.
void checkRecurrentForm(CompositionBuilder &builder, int64_t gates);

} // namespace pdc
