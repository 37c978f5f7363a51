#include "compiler/schedule/Lifetimes.h"
#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/StrictOrders.h"
#include "compiler/schedule/Transfers.h"

#include <algorithm>

namespace pdc {

namespace {

/// The slots of rows that are not written, with transfers at their runs, or where that cannot end
/// where they fall due in an execution of unit costs, as placeTransfers writes them.
class SlotCounter {
public:
  SlotCounter(const Schedule &schedule, std::span<const Edge> edges);
  std::vector<int> count();

private:
  /// The runs and updates of a rank. Row i stands at place 2i + 1, the transfers before it at 2i.
  struct Rows {
    std::vector<int> starts;
    /// By chunk, part and turn: the row.
    std::vector<std::array<std::vector<int>, kRunParts>> ofRun;
  };

  Rows rowsOf(int rank) const;
  std::vector<Lifetime> lifetimesOf(const Rows &rows, int rank, size_t chunk) const;
  int countOvertaking(int stage) const;
  int64_t firstTurn(int stage, int64_t replica) const;
  int beginOf(const Rows &rows, const std::vector<int> &stages, size_t chunk, int64_t turn,
              int64_t microbatch) const;

  const Schedule &schedule;
  StageEdges edges;
  PlayCosts costs;
  bool atRuns;
  int64_t microbatches, leftOut;
  const std::vector<Edge> played;
  OrderPlayer player;
  std::vector<RunStarts> starts; ///< unless transfers stand at their runs
  std::vector<int> slots;
};

/// Until an asynchronous schedule has filled twice over and made an update of all replicas.
int64_t microbatchesToProve(const Schedule &schedule) {
  if (!schedule.asynchronous)
    return schedule.microbatches;
  const int64_t flying = forwardsAhead(schedule.ranksOfStage, true)[0] + 1;
  return 2 * flying * schedule.replicas(0) +
         roundOfReplicas(schedule.ranksOfStage, schedule.microbatches);
}

/// Whether all ranks come to their ends with transfers at their runs.
bool canTransferAtRuns(const Schedule &schedule, std::span<const Edge> edges,
                       const PlayCosts &costs) {
  OrderPlayer player(schedule, edges, costs, microbatchesToProve(schedule));
  return StrictOrders(player, schedule, edges).end();
}

/// Of an asynchronous schedule whose transfers follow an execution, those that come before it is
/// steady.
int64_t microbatchesToLeaveOut(const Schedule &schedule, bool atRuns) {
  return atRuns || !schedule.asynchronous ? 0 : enoughMicrobatches(schedule.ranksOfStage);
}

int64_t microbatchesToPlay(const Schedule &schedule, bool atRuns) {
  if (atRuns || !schedule.asynchronous)
    return microbatchesToProve(schedule);
  return enoughMicrobatches(schedule.ranksOfStage) + microbatchesToProve(schedule);
}

SlotCounter::SlotCounter(const Schedule &schedule, std::span<const Edge> edges)
    : schedule(schedule), edges(edges, schedule.stages()), costs(unitCosts(schedule)),
      atRuns(canTransferAtRuns(schedule, edges, costs)),
      microbatches(microbatchesToPlay(schedule, atRuns)),
      leftOut(microbatchesToLeaveOut(schedule, atRuns)),
      played(atRuns ? std::vector<Edge>(edges.begin(), edges.end()) : chainStages(schedule, edges)),
      player(schedule, played, costs, microbatches), slots(schedule.stages(), 1) {
  if (!atRuns)
    player.play(&starts);
}

SlotCounter::Rows SlotCounter::rowsOf(int rank) const {
  const std::vector<int> &stages = player.stagesOf(rank);
  Rows rows;
  rows.ofRun.resize(stages.size());
  for (auto [chunk, phase] : player.orderOf(rank)) {
    const int stage = stages[chunk], part = partOf(phase);
    std::vector<int> &turns = rows.ofRun[chunk][part];
    auto turn = static_cast<int64_t>(turns.size());
    auto microbatch = static_cast<size_t>(player.replicaOn(rank) + turn * schedule.replicas(stage));
    turns.push_back(static_cast<int>(rows.starts.size()));
    rows.starts.push_back(atRuns ? 0 : starts[stage].parts[part][microbatch]);
    if (part == 1 && player.updatesBehind(stage, turn))
      rows.starts.push_back(atRuns ? 0 : starts[stage].updates[microbatch]);
  }
  return rows;
}

/// The place at which the first input comes, or the forward pass begins.
int SlotCounter::beginOf(const Rows &rows, const std::vector<int> &stages, size_t chunk,
                         int64_t turn, int64_t microbatch) const {
  int place = 2 * rows.ofRun[chunk][0][turn] + 1;
  for (const Edge *edge : edges.entering(stages[chunk])) {
    if (edge->producer != Phase::forward)
      continue;
    if (schedule.shareRanks(edge->fromStage, edge->toStage)) { // handed over when it is made
      auto maker = std::ranges::find(stages, edge->fromStage) - stages.begin();
      place = std::min(place, 2 * rows.ofRun[maker][0][turn] + 1);
      continue;
    }
    if (atRuns && edge->consumer == Phase::forward)
      place = std::min(place, 2 * rows.ofRun[chunk][0][turn]);
    if (atRuns)
      continue;
    int made = starts[edge->fromStage].parts[0][static_cast<size_t>(microbatch)] + 1;
    auto due = std::ranges::lower_bound(rows.starts, made) - rows.starts.begin();
    place = std::min(place, 2 * static_cast<int>(due));
  }
  return place;
}

int64_t SlotCounter::firstTurn(int stage, int64_t replica) const {
  const int64_t replicas = schedule.replicas(stage);
  return std::max<int64_t>(0, (leftOut - replica + replicas - 1) / replicas);
}

/// From the first turn that counts.
std::vector<Lifetime> SlotCounter::lifetimesOf(const Rows &rows, int rank, size_t chunk) const {
  const std::vector<int> &stages = player.stagesOf(rank);
  const int64_t replica = player.replicaOn(rank);
  const int stage = stages[chunk];
  const auto &[forward, backward, weight] = rows.ofRun[chunk];
  const bool sends = std::ranges::any_of(edges.leaving(stage), [&](const Edge *edge) {
    return edge->producer != Phase::forward && !schedule.shareRanks(edge->fromStage, edge->toStage);
  });
  std::vector<Lifetime> lifetimes;
  for (auto turn = static_cast<size_t>(firstTurn(stage, replica)); turn < forward.size(); ++turn) {
    auto number = static_cast<int64_t>(turn);
    int64_t microbatch = replica + number * schedule.replicas(stage);
    // What a backward pass makes leaves behind it; nothing waits for a weight gradient.
    int last = weight.empty() ? 2 * backward[turn] + 1 + (sends ? 1 : 0) : 2 * weight[turn] + 1;
    lifetimes.push_back({static_cast<size_t>(beginOf(rows, stages, chunk, number, microbatch)),
                         static_cast<size_t>(last)});
  }
  return lifetimes;
}

/// Where a stage gets what it needs in another order than it runs: by the table that its written
/// rows have.
int SlotCounter::countOvertaking(int stage) const {
  std::vector<Lifetimes> replicas;
  for (int rank : schedule.ranksOfStage[stage]) {
    auto chunk = std::ranges::find(player.stagesOf(rank), stage) - player.stagesOf(rank).begin();
    int64_t turn = firstTurn(stage, player.replicaOn(rank));
    Lifetimes &own = replicas.emplace_back();
    for (const Lifetime &life : lifetimesOf(rowsOf(rank), rank, static_cast<size_t>(chunk)))
      own.emplace_hint(own.end(), turn++, life);
  }
  const std::vector<int> table = makeSlotTable(replicas, schedule.asynchronous);
  return *std::ranges::max_element(table) + 1;
}

/// Orders run their microbatches ascending, and transfers at their runs come as they do: so almost
/// always turns are as many as live at once.
std::vector<int> SlotCounter::count() {
  std::vector<bool> overtakes(slots.size());
  for (int rank = 0; rank < player.countRanks(); ++rank) {
    const Rows rows = rowsOf(rank);
    for (size_t chunk = 0; chunk < rows.ofRun.size(); ++chunk) {
      const int stage = player.stagesOf(rank)[chunk];
      const std::optional<int64_t> most = mostInTurn(lifetimesOf(rows, rank, chunk));
      overtakes[stage] = overtakes[stage] || !most;
      slots[stage] = std::max(slots[stage], static_cast<int>(most.value_or(1)));
    }
  }
  for (size_t stage = 0; stage < slots.size(); ++stage)
    if (overtakes[stage])
      slots[stage] = countOvertaking(static_cast<int>(stage));
  return slots;
}

} // namespace

void assignUnwrittenSlots(Schedule &schedule, std::span<const Edge> edges) {
  schedule.slots = SlotCounter(schedule, edges).count();
}

} // namespace pdc
