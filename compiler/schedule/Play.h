#pragma once

#include "compiler/schedule/Rows.h"

#include <map>
#include <optional>

namespace pdc {

struct StageSeconds {
  double forward = 0, backwardInput = 0, backwardWeight = 0, update = 0, evaluate = 0;

  double of(Phase phase) const;
};

struct PlayCosts {
  std::vector<StageSeconds> stages;
  /// Per edge: latency and bytes over bandwidth; empty: transfers take no time.
  std::vector<double> edges;
  double allReduce = 0;
  /// Per stage: the sum of its gradients over its replicas; empty: takes no time.
  std::vector<double> reductions;
  /// Per edge: whether its messages move only once their receiver has come to the run that takes
  /// them, which a play of rows that are not written goes by; empty: none do.
  std::vector<bool> posted;
};

/// Every run takes one second but updates, which take none: the costs of a grid drawing.
PlayCosts unitCosts(const Schedule &schedule);

/// blocking: a group of transfers holds its rank until every peer has come to its side and the
/// bytes have moved. overlapped: transfers start when their tensor is there, only its consumer
/// waits.
enum class TransferModel : uint8_t { blocking, overlapped };

/// One bar of a timeline. A send stands in the row of the sender, a receive in the receiver's.
struct Event {
  int rank = 0;
  StepKind kind = StepKind::run;
  Task task;
  int edge = -1;
  double start = 0, end = 0;
  int peer = -1; ///< send, receive: the other rank
};

/// Where a schedule stands still: what each unfinished rank does next.
struct Stall {
  std::vector<std::optional<Step>> next;
};

struct Timeline {
  std::vector<Event> events; ///< by start, then rank
  double seconds = 0;
  std::vector<double> idle; ///< per rank, until the end of the last
  /// Per stage: forward passes of a replica begun whose backward has not ended.
  std::vector<int> peakActivations;
  std::optional<Stall> stall;
};

/// Plays one round of `iterations` repetitions (synchronous: so many minibatches). The overlapped
/// model follows the edges and does not look at transfer rows.
Timeline play(const Schedule &schedule, std::span<const Edge> edges, const PlayCosts &costs,
              TransferModel model = TransferModel::overlapped, int64_t iterations = 1);

/// Seconds between two updates (synchronous) or between two microbatches in steady state, all
/// replicas together.
double secondsPerUpdate(const Schedule &schedule, std::span<const Edge> edges,
                        const PlayCosts &costs, TransferModel model);

/// Most microbatches of a replica of a stage between forward and backward, by the order of rows.
std::vector<int> peakActivations(const UnrolledRows &rows, int stages);

} // namespace pdc
