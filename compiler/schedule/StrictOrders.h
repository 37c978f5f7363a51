#pragma once

#include "compiler/schedule/OrderPlayer.h"

#include <map>

namespace pdc {

/// The strict model (Proof.h) of rows that are not written, with transfers at their runs as
/// placeTransfersAtRuns writes them.
class StrictOrders {
public:
  StrictOrders(const OrderPlayer &player, const Schedule &schedule, std::span<const Edge> edges);
  /// Whether all ranks come to their ends.
  bool end();

private:
  /// A tensor by its edge, and a microbatch.
  using Token = std::pair<int, int64_t>;
  /// What two ranks exchange in one direction, by which side of it has come.
  struct Line {
    std::array<int64_t, 2> reached{};
    std::vector<Token> open; ///< of the side that is ahead, those before `met` behind it
    size_t met = 0;

    /// Half of what is kept is open, however long one side stays ahead.
    Token takeOpen() {
      const Token first = open[met++];
      if (2 * met >= open.size()) {
        open.erase(open.begin(), open.begin() + static_cast<std::ptrdiff_t>(met));
        met = 0;
      }
      return first;
    }
  };
  struct Message {
    const Edge *edge = nullptr;
    int64_t microbatch = 0;
    bool sent = false;
  };
  struct Rank {
    RankOrder::Place next;
    std::vector<std::array<int64_t, kRunParts>> turns;
    std::vector<Message> left;  ///< sends of what the last run made
    std::vector<Message> group; ///< what it is at
    std::vector<std::pair<Line *, std::pair<int, int64_t>>> needs; ///< side and number
    int updates = -1; ///< stage whose update comes next
    bool gathered = false, runs = false, sums = false, ended = false, waits = true;
  };

  void advance(int number);
  void gather(int number);
  void reach(int number);
  bool met(const Rank &rank) const;
  void update(int number);
  void run(int number);
  bool isBorder(int stage, Phase phase, int64_t turn) const;
  int64_t microbatchOf(int rank, int stage, int64_t turn) const;
  void addMessages(int stage, Phase phase, int64_t microbatch, bool sent,
                   std::vector<Message> &messages) const;
  Line &lineOf(const Message &message);
  void look(int number);

  const OrderPlayer &player;
  const Schedule &schedule;
  /// By stage and part: what a run receives, and what it sends.
  using Transfers = std::array<std::array<std::vector<const Edge *>, 2>, kRunParts>;
  std::vector<Transfers> transfers;
  std::vector<int64_t> ahead; ///< of an asynchronous schedule: the warm-up of each stage
  std::vector<Rank> ranks;
  std::vector<int64_t> arrived;                 ///< by stage, at the sum before an update
  std::vector<std::vector<Line *>> linesOfEdge; ///< by its replicas that send and that receive
  std::map<std::pair<int, int>, Line> lines;    ///< by ranks
  std::vector<int> ready;
  bool mismatch = false;
};

} // namespace pdc
