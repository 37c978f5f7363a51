#include "compiler/schedule/Arrangement.h"

#include "compiler/Error.h"
#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Slots.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace pdc {

/// A group by its peers, later ranks first.
static std::vector<Action> partsOf(const Action &group) {
  std::map<int, Action, std::greater<>> byPeer;
  for (const Step &step : group.steps)
    byPeer[step.peer].steps.push_back(step);
  std::vector<Action> parts;
  for (auto &[peer, part] : byPeer)
    parts.push_back(std::move(part));
  return parts;
}

static UnrolledRows splitGroups(const UnrolledRows &rows,
                                const std::function<std::vector<Action>(const Action &)> &parts) {
  UnrolledRows split = rows;
  for (size_t rank = 0; rank < rows.ranks.size(); ++rank) {
    std::vector<Action> &actions = split.ranks[rank];
    actions.clear();
    std::vector<size_t> begins; // of each whole group, among the parts
    for (const Action &action : rows.ranks[rank]) {
      begins.push_back(actions.size());
      std::ranges::move(action.transfers() ? parts(action) : std::vector{action},
                        std::back_inserter(actions));
    }
    begins.push_back(actions.size());
    split.repeatStart[rank] = begins[rows.repeatStart[rank]];
    split.drainStart[rank] = begins[rows.drainStart[rank]];
  }
  return split;
}

UnrolledRows splitByPeers(const UnrolledRows &rows) { return splitGroups(rows, partsOf); }

/// Whether a receive takes the slot that a send leaves. Groups may have thousands of steps: none is
/// compared with all others.
static bool takeSlots(const Schedule &schedule, const Action &receives, const Action &sends) {
  auto placeOf = [&](const Task &task) {
    return std::pair(task.stage, slotOf(schedule, task.stage, task.microbatch));
  };
  std::map<std::pair<int, int>, std::set<int64_t>> leaving; // microbatches by stage and slot
  for (const Step &send : sends.steps)
    leaving[placeOf(send.task)].insert(send.task.microbatch);
  return std::ranges::any_of(receives.steps, [&](const Step &receive) {
    auto found = leaving.find(placeOf(receive.task));
    return found != leaving.end() &&
           (found->second.size() > 1 || !found->second.contains(receive.task.microbatch));
  });
}

UnrolledRows splitAtSlots(const Schedule &schedule, const UnrolledRows &rows) {
  if (schedule.slotTable.empty() ||
      std::ranges::any_of(schedule.slotTable, &std::vector<int>::empty))
    return rows;
  return splitGroups(rows, [&](const Action &group) {
    Action sends, receives;
    for (const Step &step : group.steps)
      (step.kind == StepKind::send ? sends : receives).steps.push_back(step);
    return takeSlots(schedule, receives, sends) ? std::vector{sends, receives} : std::vector{group};
  });
}

namespace {

/// Plays groups in queues; times do not depend on the order of the play, as every wait is for a
/// certain event.
class QueuePlayer {
public:
  QueuePlayer(UnrolledRows unrolled, const PlayCosts &costs, Arrangement arrangement);
  /// As far as they go.
  void play();
  /// Ranks with rows that have not come, or messages.
  std::vector<int> standing() const;
  double seconds() const;

private:
  using Pair = std::pair<int, int>;
  struct Message {
    std::optional<double> sent, received, done; ///< when either side's turn came
  };
  /// A part of a group in its queue.
  struct Part {
    Action group;
    std::optional<double> issued, begun, ended;
    std::vector<std::pair<Pair, size_t>> messages; ///< ranks and number of each
    size_t call = 0;                               ///< of its rank's
  };
  struct Queue {
    std::vector<Part> parts;
    size_t position = 0;
    double free = 0;
  };
  struct Rank {
    std::vector<Action> actions;
    size_t position = 0;
    double clock = 0;
    bool reached = false;
    size_t calls = 0, begun = 0; ///< one begins behind the other
    double lastBegin = 0;
    std::map<int, Queue> queues;
    /// By action: the parts that it puts into queues.
    std::map<size_t, std::vector<std::pair<int, size_t>>> partsOfAction;
    /// What a task receives.
    std::map<Task, std::vector<std::pair<int, size_t>>> received;
  };

  int queueOf(int rank, const Step &step) const;
  void enqueue(int rank, size_t action);
  bool advance(int rank);
  bool run(Rank &rank, const Step &step);
  bool sum(int rank, const Step &step);
  bool advance(int rank, Queue &queue);
  void begin(int rank, Part &part, double time);

  const PlayCosts &costs;
  const Arrangement arrangement;
  std::vector<std::vector<int>> ranksOfStage;
  std::vector<Rank> ranks;
  std::map<Pair, std::vector<Message>> messages;
  std::map<Pair, double> linkFree;
  std::map<Pair, size_t> counts; ///< of messages begun, by rank and key of link
  std::map<int, std::vector<std::vector<double>>> sums; ///< by group and number: arrivals
  std::map<Pair, size_t> sumsOfRank;
};

QueuePlayer::QueuePlayer(UnrolledRows unrolled, const PlayCosts &costs, Arrangement arrangement)
    : costs(costs), arrangement(arrangement), ranksOfStage(std::move(unrolled.ranksOfStage)),
      ranks(unrolled.ranks.size()) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].actions = std::move(unrolled.ranks[rank]);
    for (size_t action = 0; action < ranks[rank].actions.size(); ++action)
      if (ranks[rank].actions[action].transfers())
        enqueue(static_cast<int>(rank), action);
  }
}

/// A group is issued from the last queue to the first: later peers first, and of a pair what its
/// later rank sends.
int QueuePlayer::queueOf(int rank, const Step &step) const {
  if (arrangement == Arrangement::pairs)
    return 0;
  const bool laterSends = (step.kind == StepKind::send) == (rank > step.peer);
  return 2 * step.peer + (laterSends ? 1 : 0);
}

void QueuePlayer::enqueue(int number, size_t action) {
  Rank &rank = ranks[number];
  for (const Action &part : partsOf(rank.actions[action])) {
    std::map<int, Action, std::greater<>> byQueue;
    for (const Step &step : part.steps)
      byQueue[queueOf(number, step)].steps.push_back(step);
    for (auto &[queue, group] : byQueue) {
      std::vector<Part> &parts = rank.queues[queue].parts;
      std::pair<int, size_t> place{queue, parts.size()};
      rank.partsOfAction[action].push_back(place);
      for (const Step &step : group.steps)
        if (step.kind == StepKind::receive)
          rank.received[step.task].push_back(place);
      parts.push_back({std::move(group), {}, {}, {}, {}, rank.calls++});
    }
  }
}

bool QueuePlayer::run(Rank &rank, const Step &step) {
  double start = rank.clock;
  if (auto found = rank.received.find(step.task); found != rank.received.end())
    for (auto [queue, number] : found->second) {
      const std::optional<double> &ended = rank.queues[queue].parts[number].ended;
      if (!ended)
        return false;
      start = std::max(start, *ended);
    }
  rank.clock = start + costs.stages[step.task.stage].of(step.task.phase);
  return true;
}

/// The ranks of a group end a sum together, when the last has come.
bool QueuePlayer::sum(int number, const Step &step) {
  Rank &rank = ranks[number];
  const bool all = step.kind == StepKind::allReduce;
  const int group = all ? -1 : step.task.stage;
  const size_t members = all ? ranks.size() : ranksOfStage[step.task.stage].size();
  size_t &turn = sumsOfRank[{group, number}];
  std::vector<std::vector<double>> &arrivals = sums[group];
  arrivals.resize(std::max(arrivals.size(), turn + 1));
  if (!std::exchange(rank.reached, true))
    arrivals[turn].push_back(rank.clock);
  if (arrivals[turn].size() < members)
    return false;
  const double seconds = all                        ? costs.allReduce
                         : costs.reductions.empty() ? 0
                                                    : costs.reductions[step.task.stage];
  rank.clock = std::ranges::max(arrivals[turn++]) + seconds;
  rank.reached = false;
  return true;
}

bool QueuePlayer::advance(int number) {
  Rank &rank = ranks[number];
  if (rank.position == rank.actions.size())
    return false;
  const Action &action = rank.actions[rank.position];
  if (action.transfers()) {
    for (auto [queue, part] : rank.partsOfAction[rank.position])
      rank.queues[queue].parts[part].issued = rank.clock;
  } else if (!(action.steps[0].kind == StepKind::run ? run(rank, action.steps[0])
                                                     : sum(number, action.steps[0]))) {
    return false;
  }
  ++rank.position;
  return true;
}

/// Messages of two ranks meet in the order of their sends.
void QueuePlayer::begin(int rank, Part &part, double time) {
  part.begun = time;
  for (const Step &step : part.group.steps) {
    const bool send = step.kind == StepKind::send;
    const Pair link = send ? Pair{rank, step.peer} : Pair{step.peer, rank};
    const size_t number = counts[{rank, 2 * step.peer + (send ? 1 : 0)}]++;
    std::vector<Message> &list = messages[link];
    list.resize(std::max(list.size(), number + 1));
    (send ? list[number].sent : list[number].received) = time;
    part.messages.push_back({link, number});
  }
}

bool QueuePlayer::advance(int rank, Queue &queue) {
  if (queue.position == queue.parts.size())
    return false;
  Part &part = queue.parts[queue.position];
  if (!part.issued)
    return false;
  if (!part.begun) {
    if (part.call != ranks[rank].begun)
      return false;
    ++ranks[rank].begun;
    begin(rank, part, std::max({*part.issued, queue.free, ranks[rank].lastBegin}));
    ranks[rank].lastBegin = *part.begun;
  }
  double end = *part.begun;
  for (size_t i = 0; i < part.messages.size(); ++i) {
    const auto &[link, number] = part.messages[i];
    Message &message = messages[link][number];
    if (!message.sent || !message.received)
      return false;
    if (!message.done) {
      const double seconds = costs.edges.empty() ? 0 : costs.edges[part.group.steps[i].edge];
      message.done = std::max({*message.sent, *message.received, linkFree[link]}) + seconds;
      linkFree[link] = *message.done;
    }
    end = std::max(end, *message.done);
  }
  part.ended = queue.free = end;
  ++queue.position;
  return true;
}

void QueuePlayer::play() {
  for (bool progress = true; progress;) {
    progress = false;
    for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
      while (advance(rank))
        progress = true;
      for (size_t before = ranks[rank].begun;; before = ranks[rank].begun) {
        for (auto &[key, queue] : ranks[rank].queues)
          while (advance(rank, queue))
            progress = true;
        if (ranks[rank].begun == before)
          break;
        progress = true;
      }
    }
  }
}

std::vector<int> QueuePlayer::standing() const {
  std::vector<int> found;
  for (size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i].position < ranks[i].actions.size() ||
        std::ranges::any_of(ranks[i].queues, [](const auto &queue) {
          return queue.second.position < queue.second.parts.size();
        }))
      found.push_back(static_cast<int>(i));
  return found;
}

double QueuePlayer::seconds() const {
  if (!standing().empty())
    throw Error("the messages of these rows stand still in their queues");
  return std::ranges::max_element(ranks, {}, &Rank::clock)->clock;
}

} // namespace

double secondsInQueues(const Schedule &schedule, const PlayCosts &costs, Arrangement arrangement) {
  auto secondsOf = [&](int64_t iterations) {
    std::vector<int64_t> rounds = {iterations};
    QueuePlayer player(unroll(schedule, rounds), costs, arrangement);
    player.play();
    return player.seconds();
  };
  if (!schedule.asynchronous)
    return secondsOf(0);
  int64_t settle = iterationsToSettle(schedule);
  return (secondsOf(2 * settle) - secondsOf(settle)) /
         static_cast<double>(settle * schedule.period);
}

std::optional<std::string> findStall(const UnrolledRows &calls, Arrangement arrangement) {
  PlayCosts none;
  none.stages.resize(calls.ranksOfStage.size());
  QueuePlayer player(calls, none, arrangement);
  player.play();
  std::string ranks;
  for (int rank : player.standing())
    ranks += (ranks.empty() ? "rank " : ", rank ") + std::to_string(rank);
  return ranks.empty() ? std::nullopt : std::optional("the calls stand still at " + ranks);
}

} // namespace pdc
