#pragma once

#include "compiler/schedule/Play.h"
#include "compiler/schedule/RankOrder.h"
#include "compiler/schedule/Rhythm.h"

#include <array>
#include <map>

namespace pdc {

/// What the runs of an order are, by number: forward; backward or input gradient; weight gradient.
constexpr int kRunParts = 3;
inline int partOf(Phase phase) {
  return phase == Phase::forward ? 0 : phase == Phase::backwardWeight ? 2 : 1;
}

/// When each run of a stage begins where all take whole seconds: by part and microbatch.
struct RunStarts {
  std::array<std::vector<int>, kRunParts> parts;
  std::vector<int> updates; ///< of an asynchronous schedule, behind the backward pass of each
};

/// Which of so many replicas has a microbatch: most stages have one, and a division takes as long
/// as all else.
inline int64_t replicaOf(int64_t microbatch, int64_t replicas) {
  return replicas == 1 ? 0 : microbatch % replicas;
}

/// Ranks at work, each at the next run of its order, over so many microbatches.
class OrderPlayer {
public:
  OrderPlayer(const Schedule &schedule, std::span<const Edge> edges, const PlayCosts &costs,
              int64_t microbatches);
  /// Seconds until the end; what each run began at is kept in `starts`, where it is given.
  double play(std::vector<RunStarts> *starts = nullptr);
  int countRanks() const { return static_cast<int>(ranks.size()); }
  const RankOrder &orderOf(int rank) const { return *ranks[rank].order; }
  /// In the order of its chunks.
  const std::vector<int> &stagesOf(int rank) const { return ranks[rank].stages; }
  int64_t replicaOn(int rank) const { return ranks[rank].replica; }
  /// Whether an update of an asynchronous schedule follows the backward pass of that turn.
  bool updatesBehind(int stage, int64_t turn) const;

private:
  /// What a stage sends to another in a phase: its tensors go one behind the other, and the reader
  /// waits for the last.
  struct Line {
    int from, to;
    double seconds = 0;
    size_t arrivals = 0; ///< its first in `arrived`
    size_t links = 0;    ///< its first in `linkOfPair`
  };
  struct Rank {
    const RankOrder *order = nullptr;
    size_t next = 0;
    int64_t replica = 0; ///< of all its stages
    std::vector<int> stages;
    std::vector<std::array<int64_t, kRunParts>> turns; ///< behind it, by stage and part
    double clock = 0;
    bool waits = true; ///< not among those to look at
    bool sums = false; ///< until the other replicas have come to the sum before an update
  };
  struct Stage {
    std::array<double, kRunParts> seconds{};
    std::array<std::vector<int>, kRunParts> in, out; ///< lines by part
    double update = 0, sum = 0; ///< behind backward passes, of an asynchronous schedule
    int64_t turnsPerUpdate = 1;
    int64_t replicas = 1;
    int64_t arrived = 0; ///< replicas that have come to the sum before the next update
    double lastCame = 0; ///< of these
  };

  void addStages();
  void addLines(std::span<const Edge> edges);
  void addLinks(Line &line, std::map<std::pair<int, int>, int> &numbers);
  void advance(Rank &rank);
  bool run(Rank &rank, size_t chunk, int part);
  void update(Rank &rank, int stage, int64_t microbatch);
  void send(const Line &line, int64_t microbatch, double now);
  void look(int rank);
  double close() const;

  const Schedule &schedule;
  const PlayCosts &costs;
  int64_t microbatches;
  std::vector<RankOrder> orders;
  std::vector<Stage> stages;
  std::vector<Line> lines;
  std::vector<Rank> ranks;
  std::vector<int> linkOfPair; ///< by line, replica that sends and replica that receives; -1: none
  std::vector<double> arrived, linkFree;
  std::vector<int> ready;
  std::vector<RunStarts> *starts = nullptr;
};

} // namespace pdc
