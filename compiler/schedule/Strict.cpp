#include "compiler/schedule/Strict.h"

namespace pdc {

StrictPlay::StrictPlay(const UnrolledRows &rows) : rows(rows), position(rows.ranks.size()) {
  for (const auto &actions : rows.ranks)
    needs.emplace_back(actions.size());
  meetTransfers();
  meetSums();
}

void StrictPlay::meetTransfers() {
  struct End {
    size_t action, number; ///< of the step in its action
    Step step;
  };
  std::map<std::pair<int, int>, std::pair<std::vector<End>, std::vector<End>>> lines;
  for (int rank = 0; rank < static_cast<int>(rows.ranks.size()); ++rank)
    for (size_t action = 0; action < rows.ranks[rank].size(); ++action) {
      const std::vector<Step> &steps = rows.ranks[rank][action].steps;
      for (size_t number = 0; number < steps.size(); ++number) {
        const Step &step = steps[number];
        if (step.kind == StepKind::send)
          lines[{rank, step.peer}].first.push_back({action, number, step});
        if (step.kind == StepKind::receive)
          lines[{step.peer, rank}].second.push_back({action, number, step});
      }
    }
  for (const auto &[ranks, line] : lines) {
    const auto &[sends, receives] = line;
    auto [from, to] = ranks;
    for (size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
      bool sent = i < sends.size(), received = i < receives.size();
      if (sent)
        needs[from][sends[i].action].push_back(
            {to, received ? receives[i].action : kNever, sends[i].number});
      if (received)
        needs[to][receives[i].action].push_back(
            {from, sent ? sends[i].action : kNever, receives[i].number});
      if (!sent || !received || wrongMeeting)
        continue;
      const Step &one = sends[i].step, &other = receives[i].step;
      if (one.edge != other.edge || one.task.microbatch != other.task.microbatch)
        wrongMeeting = {from, to, one, other};
    }
  }
}

/// A sum is over all ranks, or over the replicas of a stage.
void StrictPlay::meetSums() {
  constexpr int all = -1;
  std::map<int, std::map<int, std::vector<size_t>>> sums; ///< by group and rank: actions
  for (int rank = 0; rank < static_cast<int>(rows.ranks.size()); ++rank) {
    sums[all][rank];
    for (size_t action = 0; action < rows.ranks[rank].size(); ++action) {
      const Step &step = rows.ranks[rank][action].steps[0];
      if (step.kind == StepKind::allReduce)
        sums[all][rank].push_back(action);
      if (step.kind == StepKind::reduceGradients)
        sums[step.task.stage][rank].push_back(action);
    }
  }
  for (auto &[group, members] : sums) {
    if (group != all)
      for (int rank : rows.ranksOfStage[group])
        members[rank];
    meet(members);
  }
}

/// The i-th sums of all members are one.
void StrictPlay::meet(const std::map<int, std::vector<size_t>> &sums) {
  for (const auto &[rank, own] : sums)
    for (const auto &[other, theirs] : sums)
      for (size_t i = 0; other != rank && i < own.size(); ++i)
        needs[rank][own[i]].push_back({other, i < theirs.size() ? theirs[i] : kNever});
}

const StrictPlay::Need *StrictPlay::openNeed(int rank) const {
  for (const Need &need : needs[rank][position[rank]])
    if (need.action == kNever || position[need.rank] < need.action)
      return &need;
  return nullptr;
}

std::vector<StrictPlay::Progress> StrictPlay::sweep() {
  std::vector<Progress> done;
  for (int rank = 0; rank < static_cast<int>(position.size()); ++rank)
    if (position[rank] < rows.ranks[rank].size() && !openNeed(rank))
      done.push_back({rank, position[rank]});
  for (const Progress &progress : done)
    ++position[progress.rank];
  return done;
}

bool StrictPlay::ended() const {
  for (size_t rank = 0; rank < position.size(); ++rank)
    if (position[rank] < rows.ranks[rank].size())
      return false;
  return true;
}

std::optional<int> StrictPlay::waitsFor(int rank) const {
  if (position[rank] == rows.ranks[rank].size())
    return std::nullopt;
  const Need *need = openNeed(rank);
  if (!need)
    return std::nullopt;
  return need->action == kNever ? rank : need->rank;
}

const Step &StrictPlay::waitingStep(int rank) const {
  return rows.ranks[rank][position[rank]].steps[openNeed(rank)->step];
}

} // namespace pdc
