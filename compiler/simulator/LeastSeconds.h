#pragma once

#include "compiler/simulator/Simulator.h"

namespace pdc {

/// Seconds below which `simulate` cannot play the program, found without events: each operation
/// begins when the operation in front of it has ended and what it needs has come, and each transfer
/// has its links for itself. Only the messages that one operation needs from one rank follow each
/// other.
double leastSeconds(const SimulatedProgram &program, const Topology &topology);

} // namespace pdc
