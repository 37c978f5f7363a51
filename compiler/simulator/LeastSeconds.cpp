#include "compiler/simulator/LeastSeconds.h"

#include <algorithm>

namespace pdc {

namespace {

/// Follows the program as far as what each operation waits for is known.
class Follower {
public:
  Follower(const SimulatedProgram &program, const Topology &topology)
      : program(program), topology(topology), ranks(program.ranks.size()),
        transfers(program.transfers.size()) {
    for (size_t i = 0; i < transfers.size(); ++i) {
      const SimulatedTransfer &transfer = program.transfers[i];
      transfers[i].sides = transfer.members.empty() ? 1 + transfer.posted
                                                    : static_cast<int>(transfer.members.size());
    }
  }

  double follow() {
    for (size_t rank = ranks.size(); rank-- > 0;)
      ready.push_back(static_cast<int>(rank));
    while (!ready.empty()) {
      int rank = ready.back();
      ready.pop_back();
      while (advance(rank))
        ;
    }
    double last = 0;
    for (const Rank &rank : ranks)
      last = std::max(last, rank.clock);
    return last;
  }

private:
  struct Rank {
    size_t position = 0;
    double clock = 0;
    bool reached = false;
  };
  struct Transfer {
    int sides = 1;    ///< that have not come yet
    int waiting = -1; ///< a rank of a message
    double start = 0; ///< when the last side has come
    double moving = 0, latency = 0;

    bool known() const { return sides == 0; }
  };

  bool advance(int number);
  double startOf(const SimulatedOperation &operation, double clock) const;
  void comeTo(int number, double time);
  void measure(const SimulatedTransfer &transfer, Transfer &state) const;

  const SimulatedProgram &program;
  const Topology &topology;
  std::vector<Rank> ranks;
  std::vector<Transfer> transfers;
  std::vector<int> ready; ///< ranks to look at
};

/// Runs a rank's next operation; false where that has to wait.
bool Follower::advance(int number) {
  Rank &rank = ranks[number];
  if (rank.position == program.ranks[number].size())
    return false;
  const SimulatedOperation &operation = program.ranks[number][rank.position];
  if (!rank.reached)
    for (int transfer : operation.posts)
      comeTo(transfer, rank.clock);
  rank.reached = true;
  for (int need : operation.needs)
    if (!transfers[need].known()) {
      transfers[need].waiting = number;
      return false;
    }
  rank = {rank.position + 1, startOf(operation, rank.clock) + operation.seconds, false};
  for (int transfer : operation.sends)
    comeTo(transfer, rank.clock);
  return true;
}

double Follower::startOf(const SimulatedOperation &operation, double clock) const {
  double start = clock;
  for (size_t i = 0; i < operation.needs.size();) {
    int from = program.transfers[operation.needs[i]].from;
    double first = transfers[operation.needs[i]].start, moving = 0;
    size_t next = i;
    for (; next < operation.needs.size(); ++next) {
      const Transfer &need = transfers[operation.needs[next]];
      if (next > i && (from < 0 || program.transfers[operation.needs[next]].from != from))
        break;
      start = std::max(start, need.start + need.moving + need.latency);
      first = std::min(first, need.start);
      moving += need.moving;
    }
    start = std::max(start, first + moving + transfers[operation.needs[i]].latency);
    i = next;
  }
  return start;
}

void Follower::comeTo(int number, double time) {
  Transfer &state = transfers[number];
  state.start = std::max(state.start, time);
  if (--state.sides > 0)
    return;
  const SimulatedTransfer &transfer = program.transfers[number];
  measure(transfer, state);
  if (state.waiting >= 0)
    ready.push_back(state.waiting);
  // All members of a sum wait for it, each at an operation of its own.
  for (int member : transfer.members)
    ready.push_back(member);
}

void Follower::measure(const SimulatedTransfer &transfer, Transfer &state) const {
  auto along = [&](int from, int to, double bytes, double hops) {
    Link link = topology.linkBetween(from, to);
    double moving = link.bytesPerSecond > 0 ? bytes / link.bytesPerSecond : 0;
    state.moving = std::max(state.moving, moving);
    state.latency = std::max(state.latency, hops * link.latencySeconds);
  };
  if (transfer.members.empty())
    return along(transfer.from, transfer.to, transfer.bytes, 1);
  auto members = static_cast<double>(transfer.members.size());
  double hops = transfer.bytes > 0 ? 2 * (members - 1) : 2;
  for (size_t i = 0; transfer.members.size() > 1 && i < transfer.members.size(); ++i)
    along(transfer.members[i], transfer.members[(i + 1) % transfer.members.size()],
          2 * (members - 1) / members * transfer.bytes, hops);
  state.latency += transfer.handlingSeconds;
}

} // namespace

double leastSeconds(const SimulatedProgram &program, const Topology &topology) {
  return Follower(program, topology).follow();
}

} // namespace pdc
