#pragma once

#include "compiler/schedule/Play.h"
#include "compiler/schedule/RankOrder.h"
#include "compiler/schedule/Rhythm.h"

#include <array>
#include <map>
#include <utility>

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

/// When the messages of one stage come to a replica of another, by the replica's turn. Kept from
/// when they are sent until they are taken: those of a thousand stages fit into the processor's
/// caches, where those of all microbatches would not.
class Arrivals {
public:
  /// Below 0: it was not sent yet. Turns are taken one after the other.
  double at(int64_t turn) const { return times[static_cast<size_t>(turn) & (times.size() - 1)]; }
  void take(int64_t turn) {
    times[static_cast<size_t>(turn) & (times.size() - 1)] = kNotSent;
    taken = turn + 1;
  }
  void put(int64_t turn, double time) {
    if (turn - taken >= static_cast<int64_t>(times.size()))
      growFor(turn);
    times[static_cast<size_t>(turn) & (times.size() - 1)] = time;
  }

private:
  static constexpr double kNotSent = -1;
  static constexpr size_t kFewTurns = 8;

  void growFor(int64_t turn);

  std::vector<double> times = std::vector<double>(kFewTurns, kNotSent); ///< a ring of 2^n turns
  int64_t taken = 0;
};

/// Ranks at work, each at the next run of its order, over so many microbatches. What a run waits
/// for is its rank's last and what others send it: seconds do not depend on which rank is looked at
/// first.
class OrderPlayer {
public:
  OrderPlayer(const Schedule &schedule, std::span<const Edge> edges, const PlayCosts &costs,
              int64_t microbatches);
  /// Seconds until the end; what each run began at is kept in `starts`, where it is given.
  double play(std::vector<RunStarts> *starts = nullptr);
  /// Of an asynchronous schedule: the same where there are only the first so many microbatches, and
  /// of all. What both begin with is played once.
  std::pair<double, double> playFirstAndAll(int64_t first);
  int countRanks() const { return static_cast<int>(ranks.size()); }
  const RankOrder &orderOf(int rank) const { return orders[ranks[rank].order]; }
  /// In the order of its chunks.
  const std::vector<int> &stagesOf(int rank) const { return stagesOfRank[rank]; }
  int64_t replicaOn(int rank) const { return ranks[rank].replica; }
  /// Whether an update of an asynchronous schedule follows the backward pass of that turn.
  bool updatesBehind(int stage, int64_t turn) const;

private:
  struct Range {
    int first = 0, last = 0;
  };
  /// A replica of a stage on its rank: what a run of it needs, side by side.
  struct Seat {
    std::array<double, kRunParts> seconds{};
    std::array<int64_t, kRunParts> turns{}; ///< behind it
    std::array<Range, kRunParts> in, out;   ///< in `received` and `messages`
    int stage = 0;
    int replicas = 1;
  };
  struct Rank {
    double clock = 0;
    RankOrder::Place place;
    size_t order = 0;
    int64_t replica = 0; ///< of all its stages
    int seats = 0;       ///< its first
    bool sums = false;   ///< until the other replicas have come to the sum before an update
  };
  /// What a replica receives of a stage in a phase: its tensors come one behind the other, and the
  /// run waits for the last. Posted ones move only once the replica has come to that run: then
  /// their arrivals are when they were sent, and their way is the receiver's to know.
  struct Inbox {
    Arrivals arrivals;
    double seconds = 0; ///< of a posted message's way
    int rank = 0;
    int link = 0; ///< of the first replica that sends to it, in `linkOfPair`
    int senders = 1;
    int common = 1; ///< divisor of how many replicas both stages have
    bool isPosted = false;
    bool isAwaited = false; ///< its rank goes on when the next message has come
  };
  /// What a replica sends to a stage: each replica of that has an inbox and a link.
  struct Message {
    double seconds = 0;
    int inbox = 0; ///< the first
    int link = 0;  ///< of the first that it sends to, in `linkOfPair`
    int readers = 1;
    int common = 1;
  };
  struct Stage {
    double update = 0, sum = 0; ///< behind backward passes, of an asynchronous schedule
    int64_t turnsPerUpdate = 1;
    int64_t replicas = 1;
    int64_t arrived = 0; ///< replicas that have come to the sum before the next update
    double lastCame = 0; ///< of these
  };
  /// What becomes of the turns that the first microbatches alone would not fill.
  enum class Rest : uint8_t { played, held, leftOut };

  void addStages();
  void addMessages(std::span<const Edge> edges);
  void addLink(int sender, int reader, bool posted);
  double arrivalOf(const Inbox &inbox, int64_t turn, int64_t microbatch, double reached);
  void advance(int number);
  bool run(Rank &rank, Seat &seat, int part);
  void update(int number, int stage, int64_t turn);
  void send(const Message &message, int64_t microbatch, double now);
  void playReady();
  double close() const;

  const Schedule &schedule;
  const PlayCosts &costs;
  int64_t microbatches;
  Rest rest = Rest::played;
  std::vector<RankOrder> orders;
  std::vector<Stage> stages;
  std::vector<std::vector<int>> stagesOfRank;
  std::vector<Rank> ranks;
  std::vector<Seat> seats; ///< by rank, in the order of its chunks
  std::vector<Inbox> inboxes;
  std::vector<int> received;     ///< inboxes by seat and part
  std::vector<Message> messages; ///< by seat and part
  std::vector<int> linkOfPair;   ///< by message or inbox, and partner on the other side; -1: none
  /// By the ranks at their ends: links of eager messages, whose senders say when they move, and of
  /// posted ones, whose receivers do.
  std::array<std::map<std::pair<int, int>, int>, 2> links;
  std::vector<double> linkFree;
  std::vector<int> ready, held;
  std::vector<RunStarts> *starts = nullptr;
};

} // namespace pdc
