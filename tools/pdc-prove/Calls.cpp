#include "tools/pdc-prove/Calls.h"

#include "compiler/Error.h"
#include "compiler/schedule/Text.h"

#include <algorithm>

namespace pdc {

std::vector<Action> &Calls::actionsOf(int64_t step, int64_t rank) {
  Actions &ranks = actions[step];
  ranks.resize(std::max(ranks.size(), static_cast<size_t>(rank) + 1));
  return ranks[rank];
}

void Calls::addRow(int64_t step, int64_t rank, const Step &row) {
  newest.erase({step, rank});
  actionsOf(step, rank).push_back({{row}});
}

void Calls::addMessage(int64_t step, int64_t rank, int64_t number, const std::string &communicator,
                       const Step &message) {
  auto [call, isNew] = newest.try_emplace({step, rank}, number);
  std::vector<Action> &own = actionsOf(step, rank);
  if (communicator.find('>') != std::string::npos)
    queues = Arrangement::edges;
  if (isNew || call->second != number)
    own.push_back({});
  call->second = number;
  own.back().steps.push_back(message);
  addBeside(rank, communicator, message);
}

void Calls::addBeside(int64_t rank, const std::string &communicator, const Step &message) {
  const bool sends = message.kind == StepKind::send;
  const int64_t from = sends ? rank : message.peer, to = sends ? message.peer : rank;
  Ends &ends = told[{communicator, from, to}];
  (sends ? ends.sends : ends.receives).push_back(message);
}

void Calls::check() const {
  auto text = [](const std::vector<Step> &messages, size_t i) {
    return i < messages.size() ? "[" + toString(messages[i]) + "]" : std::string("nothing");
  };
  for (const auto &[key, ends] : told) {
    const auto &[communicator, from, to] = key;
    for (size_t i = 0; i < std::max(ends.sends.size(), ends.receives.size()); ++i)
      if (i >= ends.sends.size() || i >= ends.receives.size() ||
          ends.sends[i].edge != ends.receives[i].edge ||
          ends.sends[i].task.microbatch != ends.receives[i].task.microbatch)
        throw Error("communicator " + communicator + ": message " + std::to_string(i) +
                    " from rank " + std::to_string(from) + " is " + text(ends.sends, i) +
                    ", expected what rank " + std::to_string(to) + " receives, " +
                    text(ends.receives, i));
  }
}

} // namespace pdc
