#pragma once

#include "compiler/plan/Plan.h"
#include "compiler/schedule/Schedules.h"

namespace pdc {

/// A request of which nothing is open any more but cut and order of rows, under the name that a
/// plan lists it by.
struct Way {
  std::string name;
  PlanRequest request;
  int stages = 0;
};

/// As `--stages` takes them: "3-1".
std::string textOf(const std::vector<int> &replicas);

/// Whether a request leaves something open under `overlap`: the schedule (`auto`), replicas, or
/// both. A file of rows leaves nothing open.
bool opensWays(const PlanRequest &request);

/// The ways that a request leaves open, simpler ones first.
class Ways {
public:
  Ways(const PlanGraph &graph, const PlanRequest &request);

  bool isAutomatic() const { return request.schedule == "auto"; }
  /// So few units, workers and runs that every way is planned with its rows.
  bool areFew() const { return few; }
  /// Whether one stage per rank is asked for, or open.
  bool hasStraight() const;
  /// Whether it is open how many stages a rank has.
  bool opensChunks() const;

  /// One stage per rank: each schedule, then each with equal replicas, and with others on two
  /// stages and where PipeDream's search puts them. Equal ones end with one stage for all devices,
  /// data parallelism, if the schedule is open: who names one asks for a pipeline. Of many units
  /// the simplest schedule alone, on equal replicas.
  std::vector<Way> straight() const;
  /// Several stages per rank, of as many replicas as can share the microbatches.
  std::vector<Way> chunked();
  /// Those whose weight gradients run apart, with the stages and replicas of that way.
  std::vector<Way> split(const PlanRequest &way) const;

  /// What would take too long, "" if nothing; several stages per rank once `chunked` has listed the
  /// others.
  const std::string &leftOut() const { return tooMany; }

private:
  std::vector<const ScheduleKind *> schedulesOf(bool straight) const;
  std::optional<PlanRequest> withReplicas(const ScheduleKind &kind,
                                          const std::vector<int> &replicas) const;
  std::vector<Way> replicated(const ScheduleKind &kind) const;
  std::vector<std::vector<int>> unevenReplicas() const;
  std::vector<Way> uneven() const;
  std::vector<Way> inChunks(int chunks, int replicas) const;
  std::vector<Way> withUnits(std::vector<Way> ways) const;
  bool isSmall(int64_t stages, int64_t mostRuns) const;
  int chunksByHand() const;
  std::vector<int> replicasToTry() const;
  std::vector<int> chunksToTry(int replicas);
  void leaveOut(const std::string &stages, int replicas);

  const PlanGraph &graph;
  const PlanRequest &request;
  const bool sums; ///< updates are those of several microbatches
  const bool few;
  const bool simplestShared; ///< replicas are tried under the simplest schedule alone
  std::string tooMany;
};

} // namespace pdc
