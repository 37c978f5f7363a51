#include "compiler/Error.h"
#include "compiler/schedule/Arrangement.h"
#include "compiler/schedule/Grid.h"
#include "compiler/schedule/Proof.h"
#include "compiler/schedule/Strict.h"
#include "compiler/schedule/Text.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

namespace pdc {

namespace {

const Action &currentAction(const UnrolledRows &rows, const StrictPlay &play, int rank) {
  return rows.ranks[rank][play.positions()[rank]];
}

std::string describe(const Action &action) {
  std::string text;
  for (const Step &step : action.steps)
    text += (text.empty() ? "" : " ") + toString(step);
  return text;
}

/// Follows the waits from a rank that stands still until one comes twice: the cycle.
Deadlock explain(const UnrolledRows &rows, const StrictPlay &play, int64_t iterations) {
  int ranks = static_cast<int>(rows.ranks.size()), rank = 0;
  while (!play.waitsFor(rank))
    ++rank;
  for (int i = 0; i < ranks; ++i)
    rank = play.waitsFor(rank).value_or(rank);
  Deadlock found{rank, play.waitingStep(rank), iterations, ""};
  int at = rank;
  do {
    std::optional<int> next = play.waitsFor(at);
    found.text += (at == rank ? "" : "; ") + ("rank " + std::to_string(at)) + " at [" +
                  describe(currentAction(rows, play, at)) + "] waits for ";
    found.text +=
        next == at ? "a step that no rank has" : "rank " + std::to_string(next.value_or(at));
    if (!next || next == at)
      break;
    at = *next;
    // A wait for a rank that has ended is a wait for ever.
    if (!play.waitsFor(at)) {
      found.text += ", which has ended";
      break;
    }
  } while (at != rank);
  return found;
}

Deadlock explain(const StrictPlay::Mismatch &wrong, int64_t iterations) {
  return {wrong.receiver, wrong.received, iterations,
          "rank " + std::to_string(wrong.sender) + " sends [" + toString(wrong.sent) +
              "] where rank " + std::to_string(wrong.receiver) + " receives [" +
              toString(wrong.received) + "]"};
}

using State = std::vector<int64_t>;

/// Ranks that may wait for each other, directly or through others. What is not connected has its
/// own speed: the distance between two components grows without end and says nothing.
using Components = std::vector<std::vector<size_t>>;

Components findComponents(const Schedule &schedule) {
  size_t ranks = schedule.ranks.size();
  std::vector<size_t> root(ranks);
  std::iota(root.begin(), root.end(), size_t{0});
  auto join = [&](size_t a, size_t b) {
    if (root[a] != root[b])
      std::ranges::replace(root, size_t{root[a]}, size_t{root[b]});
  };
  std::optional<size_t> summing;
  for (size_t rank = 0; rank < ranks; ++rank)
    for (const auto *part :
         {&schedule.ranks[rank].warmUp, &schedule.ranks[rank].repeat, &schedule.ranks[rank].drain})
      for (const Step &step : *part) {
        if (step.kind == StepKind::send || step.kind == StepKind::receive)
          join(rank, static_cast<size_t>(step.peer));
        if (step.kind == StepKind::allReduce)
          join(rank, summing.value_or(rank)), summing = rank;
        if (step.kind == StepKind::reduceGradients)
          for (int replica : schedule.ranksOfStage[step.task.stage])
            join(rank, static_cast<size_t>(replica));
      }
  std::map<size_t, std::vector<size_t>> byRoot;
  for (size_t rank = 0; rank < ranks; ++rank)
    byRoot[root[rank]].push_back(rank);
  Components result;
  for (auto &[first, members] : byRoot)
    result.push_back(std::move(members));
  return result;
}

struct Run {
  std::optional<Deadlock> deadlock;
  /// Per component: positions relative to the drain when its first rank came to it; empty when one
  /// of its ranks had not left its warm-up by then.
  std::vector<State> states;
};

/// Whether one of the ranks drains; then their state is noted.
bool noteDrain(const UnrolledRows &rows, const StrictPlay &play, const std::vector<size_t> &ranks,
               State &state) {
  auto hasComeTo = [&](const std::vector<size_t> &starts) {
    return [&](size_t rank) { return play.positions()[rank] >= starts[rank]; };
  };
  if (std::ranges::none_of(ranks, hasComeTo(rows.drainStart)))
    return false;
  if (std::ranges::all_of(ranks, hasComeTo(rows.repeatStart)))
    for (size_t rank : ranks)
      state.push_back(static_cast<int64_t>(play.positions()[rank]) -
                      static_cast<int64_t>(rows.drainStart[rank]));
  return true;
}

/// The rows of so many iterations, in the groups that are to be proven.
using Unroll = std::function<UnrolledRows(std::span<const int64_t> rounds)>;

Run runStrictly(const Unroll &unroll, int64_t iterations, const Components &components) {
  std::vector<int64_t> rounds = {iterations};
  UnrolledRows rows = unroll(rounds);
  StrictPlay play(rows);
  if (play.mismatch())
    return {explain(*play.mismatch(), iterations), {}};
  std::vector<State> states(components.size());
  std::vector<bool> draining(components.size());
  do {
    for (size_t i = 0; i < components.size(); ++i)
      if (!draining[i])
        draining[i] = noteDrain(rows, play, components[i], states[i]);
  } while (!play.sweep().empty());
  if (!play.ended())
    return {explain(rows, play, iterations), {}};
  return {std::nullopt, states};
}

/// Messages per iteration between each two ranks must be as many at both ends, or the ends drift.
std::optional<Deadlock> findDrift(const Schedule &schedule) {
  std::map<std::pair<int, int>, int> balance;
  std::map<std::pair<int, int>, std::pair<int, Step>> example;
  for (int rank = 0; rank < static_cast<int>(schedule.ranks.size()); ++rank)
    for (const Step &step : schedule.ranks[rank].repeat) {
      if (step.kind == StepKind::send)
        ++balance[{rank, step.peer}], example[{rank, step.peer}] = {rank, step};
      if (step.kind == StepKind::receive)
        --balance[{step.peer, rank}], example[{step.peer, rank}] = {rank, step};
    }
  for (const auto &[pair, count] : balance)
    if (count) {
      auto [rank, step] = example[pair];
      return Deadlock{rank, step, 2,
                      "in one iteration rank " + std::to_string(pair.first) +
                          " sends more or fewer messages than rank " + std::to_string(pair.second) +
                          " receives from it"};
    }
  return std::nullopt;
}

std::optional<Deadlock> findDeadlockOf(const Schedule &schedule, const Unroll &unroll) {
  if (!schedule.asynchronous)
    return runStrictly(unroll, 1, {}).deadlock;
  if (std::optional<Deadlock> drift = findDrift(schedule))
    return drift;
  int64_t longest = 16 * schedule.stages() + 64;
  Components components = findComponents(schedule);
  std::vector<std::set<State>> seen(components.size());
  std::vector<bool> steady(components.size());
  for (int64_t iterations = 0; iterations < longest; ++iterations) {
    Run run = runStrictly(unroll, iterations, components);
    if (run.deadlock)
      return run.deadlock;
    for (size_t i = 0; i < components.size(); ++i)
      if (const State &state = run.states[i]; !state.empty() && !seen[i].insert(state).second)
        steady[i] = true;
    if (std::ranges::all_of(steady, std::identity{}))
      return std::nullopt;
  }
  return Deadlock{0,
                  {.kind = StepKind::allReduce},
                  longest,
                  "the ranks do not come to a steady state within " + std::to_string(longest) +
                      " iterations"};
}

} // namespace

std::optional<Deadlock> findDeadlock(const Schedule &schedule) {
  return findDeadlockOf(schedule, [&](std::span<const int64_t> rounds) {
    return splitAtSlots(schedule, unroll(schedule, rounds));
  });
}

std::optional<Deadlock> findDeadlockOfPairs(const Schedule &schedule) {
  return findDeadlockOf(schedule, [&](std::span<const int64_t> rounds) {
    return splitByPeers(splitAtSlots(schedule, unroll(schedule, rounds)));
  });
}

std::optional<Deadlock> findDeadlock(const UnrolledRows &rows) {
  StrictPlay play(rows);
  if (play.mismatch())
    return explain(*play.mismatch(), 1);
  while (!play.sweep().empty())
    ;
  return play.ended() ? std::nullopt : std::optional(explain(rows, play, 1));
}

void proveNoDeadlock(const Schedule &schedule, std::span<const Edge> edges) {
  checkEdges(schedule, edges);
  checkRows(schedule, edges);
  std::optional<Deadlock> found = findDeadlock(schedule);
  if (!found)
    return;
  // Fewer iterations would have other numbers where they drain.
  int64_t iterations = schedule.asynchronous ? found->iterations : 1;
  std::optional<Mark> mark;
  if (found->step.kind != StepKind::allReduce)
    mark = Mark{found->rank, found->step.task};
  else
    iterations = std::min(iterations, iterationsToDraw(schedule));
  throw Error("schedule " + schedule.name + " stands still: " + found->text + "\n" +
              drawGrid(schedule, edges, iterations, mark));
}

} // namespace pdc
