#pragma once

#include "runtime/Control.h"
#include "runtime/Program.h"
#include "runtime/Transport.h"

#include <string>
#include <vector>

namespace pdc::runtime::cuda {

/// Which communicators a rank's messages go over: one for each pair of ranks, all in one stream, in
/// the order of the rows; or one for each directed edge between two ranks, each with a stream of
/// its own, so that no message waits behind another's.
enum class Arrangement : uint8_t { pairs, edges };

/// NCCL between processes, one rank and one GPU each. NCCL knows no tags, so the ranks first
/// compare the order of their messages. Collective: meets over the control plane, and connects
/// every pair of ranks that will exchange anything, in the arrangement that the name says.
std::unique_ptr<Transport> connectPairs(Accelerator &accelerator, Control &control,
                                        const Program &program);
std::unique_ptr<Transport> connectEdges(Accelerator &accelerator, Control &control,
                                        const Program &program);

/// Connects every two ranks, in pairs, whatever they exchange.
std::unique_ptr<Transport> connectAll(Accelerator &accelerator, Control &control);

/// Messages of two ranks meet in the order posted: throws Error unless both post the same.
/// Collective.
void compareOrders(const Program &program, Control &control);

/// What this rank tells the others: the ranks it sends tensors to, and the gradients of tied
/// weights that it sums and gathers.
std::string receivers(const Program &program);
/// The ranks it sends shares of sums to, the other replicas of its stages.
std::string otherReplicas(const Program &program);
/// All but this one of so many.
std::string allOthers(int rank, int ranks);
/// From what all ranks tell, by rank: those it may send anything to, ascending.
std::vector<std::vector<int>> edgesOf(const std::vector<std::string> &told);

/// The tags of the messages from one rank to another in the order of a program's rows: evaluation,
/// then training with `repeat` three times over.
std::string messageOrder(const Program &program, int from, int to);

} // namespace pdc::runtime::cuda
