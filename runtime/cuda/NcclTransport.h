#pragma once

#include "runtime/Control.h"
#include "runtime/Transport.h"

namespace pdc::runtime::cuda {

/// NCCL between processes, one rank and one GPU each. One communicator and one stream per rank: all
/// of a rank's messages run in the order in which they are posted, which is the strictest model
/// that the compiler proves free of deadlock; what is posted as one group is one. NCCL knows no
/// tags, so the ranks first compare the order of their messages. Collective: meets over the control
/// plane, and connects every pair of ranks that will exchange anything.
std::unique_ptr<Transport> connectOverNccl(Accelerator &accelerator, Control &control,
                                           const Program &program);

/// The tags of the messages from one rank to another in the order of a program's rows: evaluation,
/// then training with `repeat` three times over.
std::string messageOrder(const Program &program, int from, int to);

} // namespace pdc::runtime::cuda
