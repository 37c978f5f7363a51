#include "compiler/simulator/Simulator.h"

#include "compiler/simulator/Shares.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <queue>

namespace pdc {

namespace {

/// The ports of every component at every level.
class Ports {
public:
  Ports(const Topology &topology, Shares &shares) : topology(topology) {
    int below = 1;
    for (const Level &level : topology.levels) {
      first.push_back(0);
      if (level.link.bytesPerSecond > 0)
        for (int port = 0; port < 2 * topology.workers() / below; ++port) {
          double most = level.link.bytesPerSecond;
          int number = shares.addResource(most * level.ports, most);
          first.back() = port ? first.back() : number;
        }
      below *= level.workers;
    }
    for (const OwnLink &own : topology.links)
      for (bool back : {false, true}) {
        double most = own.link.bytesPerSecond;
        ownLinks[{back ? own.to : own.from, back ? own.from : own.to}] =
            shares.addResource(most, most);
      }
  }

  /// The direction of a link that two ranks have for themselves, or -1.
  int ownLink(int from, int to) const {
    auto own = ownLinks.find({from, to});
    return own == ownLinks.end() ? -1 : own->second;
  }

  /// Out of the sender's component and into the receiver's.
  std::array<int, 2> between(int from, int to) const {
    size_t level = 0;
    for (; level + 1 < topology.levels.size(); ++level) {
      if (from / topology.levels[level].workers == to / topology.levels[level].workers)
        break;
      from /= topology.levels[level].workers;
      to /= topology.levels[level].workers;
    }
    return {first[level] + 2 * from, first[level] + 2 * to + 1};
  }

private:
  const Topology &topology;
  std::vector<int> first; ///< by level: the port out of its first component
  std::map<std::pair<int, int>, int> ownLinks;
};

class Simulator {
public:
  Simulator(const SimulatedProgram &program, const Topology &topology)
      : program(program), topology(topology), ports(topology, shares), ranks(program.ranks.size()),
        states(program.transfers.size()) {
    for (const auto &operations : program.ranks)
      result.operations.emplace_back(operations.size());
    result.transfers.resize(program.transfers.size());
    auto count = static_cast<double>(program.ranks.size());
    if (topology.cores <= 0)
      return;
    double atOnce = static_cast<double>(topology.cores) / std::min(program.threads, topology.cores);
    if (atOnce < count || slowsDown())
      host = shares.addResource(atOnce, 1);
  }

  Simulation run();

private:
  struct Rank {
    size_t position = 0;
    int missing = 0; ///< transfers that its operation still needs
    bool reached = false, running = false;
    std::deque<int> sums; ///< that all their members have joined; the first may be under way
  };
  struct TransferState {
    int waits = -1; ///< for so many sides; -1: nobody has come
    int flows = 0;  ///< of a sum, under way
    bool begun = false; ///< a sum
    bool ended = false;
    std::vector<int> waiting; ///< ranks
  };
  /// Messages from one rank to another, in the order in which they may move.
  struct Channel {
    std::deque<int> queue;
    bool busy = false;
  };
  struct Event {
    double time;
    int64_t order;
    enum Kind { operationEnd, sumMoved, arrival } kind;
    int which;
    bool operator>(const Event &other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  bool slowsDown() const {
    return std::ranges::any_of(program.ranks, [](const auto &operations) {
      return std::ranges::any_of(operations, [](const auto &one) { return one.slowdown > 1; });
    });
  }
  void push(double time, Event::Kind kind, int which) {
    events.push({time, ++orders, kind, which});
  }
  void advance(int rank);
  void begin(int rank);
  void endOperation(int rank);
  void comeTo(int transfer);
  void moveNext(Channel &channel);
  void joinSum(int transfer);
  bool isNext(int sum) const;
  void leaveSum(int transfer);
  void startSum(int transfer);
  void startFlow(int from, int to, double bytes, int owner);
  void endFlow(int owner);
  void arrive(int transfer);
  int sidesOf(const SimulatedTransfer &transfer) const {
    return transfer.members.empty() ? 1 + transfer.posted
                                    : static_cast<int>(transfer.members.size());
  }

  const SimulatedProgram &program;
  const Topology &topology;
  Shares shares;
  Ports ports;
  int host = -1;
  std::vector<Rank> ranks;
  std::vector<TransferState> states;
  std::map<std::pair<int, int>, Channel> channels;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  std::vector<int> starting; ///< ranks to look at now
  int64_t orders = 0;
  double now = 0;
  Simulation result;
};

/// Owners of shares: transfers as they are, the ranks that compute below zero.
int ownerOfRank(int rank) { return -1 - rank; }

void Simulator::advance(int number) {
  Rank &rank = ranks[number];
  const auto &operations = program.ranks[number];
  if (rank.running || rank.position == operations.size())
    return;
  const SimulatedOperation &operation = operations[rank.position];
  if (!rank.reached) {
    rank.reached = true;
    result.operations[number][rank.position].reached = now;
    for (int need : operation.needs)
      if (!states[need].ended) {
        states[need].waiting.push_back(number);
        ++rank.missing;
      }
    for (int transfer : operation.posts)
      comeTo(transfer);
  }
  if (rank.missing == 0)
    begin(number);
}

void Simulator::begin(int number) {
  Rank &rank = ranks[number];
  double seconds = program.ranks[number][rank.position].seconds;
  double slowdown = program.ranks[number][rank.position].slowdown;
  rank.running = true;
  result.operations[number][rank.position].start = now;
  if (host >= 0 && seconds > 0)
    shares.start(ownerOfRank(number), seconds, std::array{host}, now, slowdown);
  else
    push(now + seconds, Event::operationEnd, number);
}

void Simulator::endOperation(int number) {
  Rank &rank = ranks[number];
  result.operations[number][rank.position].end = now;
  for (int transfer : program.ranks[number][rank.position].sends)
    comeTo(transfer);
  ++rank.position;
  rank.missing = 0;
  rank.reached = rank.running = false;
  starting.push_back(number);
}

/// A side of a transfer is there: its sender, its receiver, or a member of the sum.
void Simulator::comeTo(int number) {
  const SimulatedTransfer &transfer = program.transfers[number];
  TransferState &state = states[number];
  if (state.waits < 0) {
    state.waits = sidesOf(transfer);
    result.transfers[number].reached = now;
  }
  if (--state.waits > 0)
    return;
  if (!transfer.members.empty())
    return transfer.bytes > 0 ? joinSum(number) : startSum(number);
  Channel &channel = channels[{transfer.from, transfer.to}];
  channel.queue.push_back(number);
  moveNext(channel);
}

void Simulator::moveNext(Channel &channel) {
  if (channel.busy || channel.queue.empty())
    return;
  channel.busy = true;
  int number = channel.queue.front();
  const SimulatedTransfer &transfer = program.transfers[number];
  result.transfers[number].start = now;
  startFlow(transfer.from, transfer.to, transfer.bytes, number);
}

void Simulator::startFlow(int from, int to, double bytes, int owner) {
  if (int own = ports.ownLink(from, to); bytes > 0 && own >= 0)
    shares.start(owner, bytes, std::array{own}, now);
  else if (bytes > 0 && topology.linkBetween(from, to).bytesPerSecond > 0)
    shares.start(owner, bytes, ports.between(from, to), now);
  else
    endFlow(owner);
}

/// All members come to their sums in the order in which these were whole.
void Simulator::joinSum(int number) {
  for (int member : program.transfers[number].members)
    ranks[member].sums.push_back(number);
  if (isNext(number))
    startSum(number);
}

bool Simulator::isNext(int sum) const {
  return std::ranges::all_of(program.transfers[sum].members,
                             [&](int member) { return ranks[member].sums.front() == sum; });
}

/// Its members turn to the sums behind it.
void Simulator::leaveSum(int number) {
  const std::vector<int> &members = program.transfers[number].members;
  for (int member : members)
    ranks[member].sums.pop_front();
  for (int member : members)
    if (const std::deque<int> &sums = ranks[member].sums;
        !sums.empty() && !states[sums.front()].begun && isNext(sums.front()))
      startSum(sums.front());
}

void Simulator::startSum(int number) {
  const SimulatedTransfer &sum = program.transfers[number];
  auto members = static_cast<int>(sum.members.size());
  result.transfers[number].start = now;
  states[number].begun = true;
  states[number].flows = members;
  if (members == 1)
    return endFlow(number);
  double bytes = 2.0 * (members - 1) / members * sum.bytes;
  for (int i = 0; i < members; ++i)
    startFlow(sum.members[i], sum.members[(i + 1) % members], bytes, number);
}

void Simulator::endFlow(int number) {
  const SimulatedTransfer &transfer = program.transfers[number];
  if (transfer.members.empty()) {
    push(now + topology.linkBetween(transfer.from, transfer.to).latencySeconds, Event::arrival,
         number);
    Channel &channel = channels[{transfer.from, transfer.to}];
    channel.queue.pop_front();
    channel.busy = false;
    return moveNext(channel);
  }
  if (--states[number].flows > 0)
    return;
  double latency = 0;
  size_t members = transfer.members.size();
  for (size_t i = 0; members > 1 && i < members; ++i)
    latency = std::max(
        latency, topology.linkBetween(transfer.members[i], transfer.members[(i + 1) % members])
                     .latencySeconds);
  // Bytes go round the ring twice; a few numbers go to one rank and back.
  double hops = transfer.bytes > 0 ? 2.0 * static_cast<double>(members - 1) : 2;
  // The members move the next one while they handle this one, whichever takes longer.
  double moved = now - result.transfers[number].start, handling = transfer.handlingSeconds;
  double left = now + std::max(0.0, handling - moved);
  if (transfer.bytes > 0)
    push(left, Event::sumMoved, number);
  push(left + std::min(handling, moved) + hops * latency, Event::arrival, number);
}

void Simulator::arrive(int number) {
  result.transfers[number].end = now;
  states[number].ended = true;
  for (int rank : states[number].waiting)
    if (--ranks[rank].missing == 0)
      starting.push_back(rank);
  states[number].waiting = {};
}

Simulation Simulator::run() {
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    starting.push_back(static_cast<int>(rank));
  for (;;) {
    while (!starting.empty()) {
      int rank = starting.back();
      starting.pop_back();
      advance(rank);
    }
    std::optional<double> shared = shares.nextEnd();
    if (shared && (events.empty() || *shared < events.top().time)) {
      now = *shared;
      int owner = shares.endNext();
      owner < 0 ? endOperation(-1 - owner) : endFlow(owner);
      continue;
    }
    if (events.empty())
      break;
    Event event = events.top();
    events.pop();
    now = event.time;
    switch (event.kind) {
    case Event::operationEnd:
      endOperation(event.which);
      break;
    case Event::sumMoved:
      leaveSum(event.which);
      break;
    case Event::arrival:
      arrive(event.which);
    }
  }
  result.seconds = now;
  for (size_t rank = ranks.size(); rank-- > 0;)
    if (ranks[rank].position < program.ranks[rank].size())
      result.stuckRank = static_cast<int>(rank);
  return std::move(result);
}

} // namespace

Simulation simulate(const SimulatedProgram &program, const Topology &topology) {
  return Simulator(program, topology).run();
}

} // namespace pdc
