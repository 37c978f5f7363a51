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
    size_t action;
    Step step;
  };
  std::map<std::pair<int, int>, std::pair<std::vector<End>, std::vector<End>>> lines;
  for (int rank = 0; rank < static_cast<int>(rows.ranks.size()); ++rank)
    for (size_t action = 0; action < rows.ranks[rank].size(); ++action)
      for (const Step &step : rows.ranks[rank][action].steps) {
        if (step.kind == StepKind::send)
          lines[{rank, step.peer}].first.push_back({action, step});
        if (step.kind == StepKind::receive)
          lines[{step.peer, rank}].second.push_back({action, step});
      }
  for (const auto &[ranks, line] : lines) {
    const auto &[sends, receives] = line;
    auto [from, to] = ranks;
    for (size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
      bool sent = i < sends.size(), received = i < receives.size();
      if (sent)
        needs[from][sends[i].action].push_back({to, received ? receives[i].action : kNever});
      if (received)
        needs[to][receives[i].action].push_back({from, sent ? sends[i].action : kNever});
      if (!sent || !received || wrongMeeting)
        continue;
      const Step &one = sends[i].step, &other = receives[i].step;
      if (one.edge != other.edge || one.task.microbatch != other.task.microbatch)
        wrongMeeting = {from, to, one, other};
    }
  }
}

void StrictPlay::meetSums() {
  std::vector<std::vector<size_t>> sums;
  size_t most = 0;
  for (const auto &actions : rows.ranks) {
    std::vector<size_t> &own = sums.emplace_back();
    for (size_t action = 0; action < actions.size(); ++action)
      if (actions[action].steps[0].kind == StepKind::allReduce)
        own.push_back(action);
    most = std::max(most, own.size());
  }
  int ranks = static_cast<int>(rows.ranks.size());
  for (size_t i = 0; i < most; ++i)
    for (int rank = 0; rank < ranks; ++rank)
      for (int other = 0; i < sums[rank].size() && other < ranks; ++other)
        if (other != rank)
          needs[rank][sums[rank][i]].push_back(
              {other, i < sums[other].size() ? sums[other][i] : kNever});
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

} // namespace pdc
