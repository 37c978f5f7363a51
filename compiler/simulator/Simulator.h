#pragma once

#include "compiler/plan/Plan.h"

#include <vector>

namespace pdc {

/// What moves between ranks: a message, or a sum over several ranks.
struct SimulatedTransfer {
  int from = -1, to = -1;   ///< a message
  std::vector<int> members; ///< a sum, in which each of these ranks takes part once
  double bytes = 0;
  /// A message whose bytes do not move before its receiver has come to an operation that posts it.
  bool posted = false;
  /// Of a sum: what each member spends on it itself, beside its operations and the way of its
  /// bytes.
  double handlingSeconds = 0;
};

/// One step of a rank; transfers are named by their numbers. A rank takes its operations in order.
struct SimulatedOperation {
  double seconds = 0;     ///< on a core of its own
  std::vector<int> posts; ///< receives posted, and sums joined, when the rank comes to it
  std::vector<int> needs; ///< transfers that must have ended before it begins
  std::vector<int> sends; ///< messages handed over when it ends
  double slowdown = 1;    ///< by which the seconds grow while all cores of its host compute
};

struct SimulatedProgram {
  std::vector<std::vector<SimulatedOperation>> ranks;
  std::vector<SimulatedTransfer> transfers;
  int threads = 1; ///< cores that an operation takes where ranks share those of a host
};

struct SimulatedTime {
  double reached =
      0; ///< an operation: when its rank came to it; a transfer: when it was handed over
  double start = 0, end = 0;
};

struct Simulation {
  std::vector<std::vector<SimulatedTime>> operations; ///< by rank
  std::vector<SimulatedTime> transfers;
  double seconds = 0;
  /// The first rank that waits for ever, or -1.
  int stuckRank = -1;
};

/// Plays a program, event by event, on the devices and links of a topology.
///
/// - Messages from one rank to another go one after the other, each the link's latency on its way.
///   Two ranks with a link of their own share it with nobody. Elsewhere, at each level a component
///   (a rank, or a whole server) has a port out and a port in, which the transfers that go through
///   them at a time share; see Level::ports.
/// - A sum goes round a ring of its members, 2(n-1)/n of its bytes over each link between
///   neighbours, once all have joined and the sums that were whole before it have moved: those of a
///   rank move one behind the other, and are handled beside that. One without bytes goes to a rank
///   and back, and waits for none.
/// - Where a host has fewer cores (Topology::cores) than its ranks have threads, those that compute
/// at
///   a time share them.
Simulation simulate(const SimulatedProgram &program, const Topology &topology);

} // namespace pdc
