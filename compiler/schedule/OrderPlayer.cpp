#include "compiler/schedule/OrderPlayer.h"

#include "compiler/Error.h"
#include "compiler/schedule/Replicas.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

namespace pdc {

void Arrivals::growFor(int64_t turn) {
  const auto turns = static_cast<size_t>(turn - taken + 1);
  std::vector<double> larger(std::bit_ceil(turns), kNotSent);
  for (size_t i = 0; i < times.size(); ++i) {
    const int64_t known = taken + static_cast<int64_t>(i);
    larger[static_cast<size_t>(known) & (larger.size() - 1)] = at(known);
  }
  times = std::move(larger);
}

OrderPlayer::OrderPlayer(const Schedule &schedule, std::span<const Edge> edges,
                         const PlayCosts &costs, int64_t microbatches)
    : schedule(schedule), costs(costs), microbatches(microbatches), stages(schedule.stages()) {
  Pipeline pipeline{schedule.stages(), schedule.ranksOfStage, microbatches};
  ranks.resize(pipeline.ranks());
  stagesOfRank.resize(ranks.size());
  RankOrders all = ordersOf(schedule.name, pipeline);
  orders = std::move(all.orders);
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    ranks[rank].order = all.orderOfRank[rank];
  addStages();
  addMessages(edges);
}

void OrderPlayer::addStages() {
  for (int number = 0; number < schedule.stages(); ++number) {
    Stage &stage = stages[number];
    stage.replicas = schedule.replicas(number);
    stage.update = schedule.asynchronous ? costs.stages[number].update : 0;
    stage.sum = costs.reductions.empty() ? 0 : costs.reductions[number];
    stage.turnsPerUpdate =
        std::max<int64_t>(1, microbatchesPerUpdate(schedule, number) / stage.replicas);
    for (int64_t replica = 0; replica < stage.replicas; ++replica) {
      const int rank = schedule.ranksOfStage[number][replica];
      ranks[rank].replica = replica;
      stagesOfRank[rank].push_back(number);
    }
  }
  const std::vector<bool> split = findSplitStages(schedule);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].seats = static_cast<int>(seats.size());
    for (int number : stagesOfRank[rank]) {
      const StageSeconds &own = costs.stages[number];
      Seat &seat = seats.emplace_back();
      seat.seconds = {own.forward, own.of(split[number] ? Phase::backwardInput : Phase::backward),
                      own.backwardWeight};
      seat.stage = number;
      seat.replicas = static_cast<int>(stages[number].replicas);
    }
  }
}

void OrderPlayer::addMessages(std::span<const Edge> edges) {
  // By ends and whether they are posted.
  std::map<std::tuple<int, int, bool>, double> seconds;
  for (const Edge &edge : edges)
    seconds[{edge.fromStage, edge.toStage, !costs.posted.empty() && costs.posted[edge.id]}] +=
        costs.edges.empty() ? 0 : costs.edges[edge.id];
  // By rank and stage, then by part.
  std::map<std::pair<int, int>, std::array<std::vector<int>, kRunParts>> in;
  std::map<std::pair<int, int>, std::array<std::vector<Message>, kRunParts>> out;
  for (auto [line, sum] : seconds) {
    auto [from, to, posted] = line;
    // Activations go to later stages, gradients to earlier ones.
    const int part = from < to ? 0 : 1, first = static_cast<int>(inboxes.size());
    const std::vector<int> &readers = schedule.ranksOfStage[to];
    const std::vector<int> &senders = schedule.ranksOfStage[from];
    const auto common = static_cast<int>(std::gcd(senders.size(), readers.size()));
    for (size_t replica = 0; replica < readers.size(); ++replica) {
      in[{readers[replica], to}][part].push_back(static_cast<int>(inboxes.size()));
      Inbox &inbox = inboxes.emplace_back();
      inbox.rank = readers[replica];
      inbox.seconds = sum;
      inbox.senders = static_cast<int>(senders.size());
      inbox.common = common;
      inbox.isPosted = posted;
      if (posted)
        inbox.link = static_cast<int>(linkOfPair.size());
      for (size_t other = replica % common; posted && other < senders.size(); other += common)
        addLink(senders[other], readers[replica], posted);
    }
    for (size_t replica = 0; replica < senders.size(); ++replica) {
      out[{senders[replica], from}][part].push_back({sum, first,
                                                     static_cast<int>(linkOfPair.size()),
                                                     static_cast<int>(readers.size()), common});
      for (size_t other = replica % common; !posted && other < readers.size(); other += common)
        addLink(senders[replica], readers[other], posted);
    }
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (size_t chunk = 0; chunk < stagesOfRank[rank].size(); ++chunk) {
      Seat &seat = seats[static_cast<size_t>(ranks[rank].seats) + chunk];
      const std::pair<int, int> place = {static_cast<int>(rank), seat.stage};
      for (int part = 0; part < kRunParts; ++part) {
        const auto append = [](auto &all, const auto &own) {
          const auto before = static_cast<int>(all.size());
          all.insert(all.end(), own.begin(), own.end());
          return Range{before, static_cast<int>(all.size())};
        };
        seat.in[part] = append(received, in[place][part]);
        seat.out[part] = append(messages, out[place][part]);
      }
    }
}

/// Messages between the same two ranks share their link; what stays on a rank needs none.
void OrderPlayer::addLink(int sender, int reader, bool posted) {
  const auto next = static_cast<int>(linkFree.size());
  auto [link, isNew] = links[posted].try_emplace({sender, reader}, next);
  linkOfPair.push_back(sender == reader ? -1 : link->second);
  if (isNew)
    linkFree.push_back(0);
}

/// Replicas whose numbers differ by a multiple of what both stages' counts have in common take
/// turns with each other, and no others: the place of a replica among those.
static int64_t partnerOf(int64_t replica, int common) {
  return common == 1 ? replica : replica / common;
}

/// The first replicas may have a turn more at the end: no update sums what the others do not have.
bool OrderPlayer::updatesBehind(int stage, int64_t turn) const {
  const Stage &own = stages[stage];
  return schedule.asynchronous && (turn + 1) * own.replicas <= microbatches &&
         (own.turnsPerUpdate == 1 || (turn + 1) % own.turnsPerUpdate == 0);
}

/// Replicas sum their gradients together, when the last of them has come.
void OrderPlayer::update(int number, int ofStage, int64_t turn) {
  Stage &stage = stages[ofStage];
  stage.lastCame = std::max(stage.lastCame, ranks[number].clock);
  ranks[number].sums = true;
  if (++stage.arrived < stage.replicas)
    return;
  double end = stage.lastCame + (stage.replicas > 1 ? stage.sum : 0);
  for (int64_t replica = 0; replica < stage.replicas; ++replica) {
    int own = schedule.ranksOfStage[ofStage][replica];
    ranks[own].clock = end + stage.update;
    ranks[own].sums = false;
    if (own != number)
      ready.push_back(own);
    if (starts)
      (*starts)[ofStage].updates[static_cast<size_t>(turn * stage.replicas + replica)] =
          static_cast<int>(end);
  }
  stage.arrived = 0;
  stage.lastCame = 0;
}

void OrderPlayer::send(const Message &message, int64_t microbatch, double now) {
  const int64_t reader = replicaOf(microbatch, message.readers);
  Inbox &inbox = inboxes[static_cast<size_t>(message.inbox + reader)];
  double arrival = now;
  if (!inbox.isPosted)
    if (int link =
            linkOfPair[static_cast<size_t>(message.link + partnerOf(reader, message.common))];
        link >= 0)
      arrival = linkFree[link] = std::max(linkFree[link], now) + message.seconds;
  inbox.arrivals.put(message.readers == 1 ? microbatch : microbatch / message.readers, arrival);
  if (std::exchange(inbox.isAwaited, false))
    ready.push_back(inbox.rank);
}

double OrderPlayer::arrivalOf(const Inbox &inbox, int64_t turn, int64_t microbatch,
                              double reached) {
  const double time = inbox.arrivals.at(turn);
  if (!inbox.isPosted)
    return time;
  const int64_t sender = replicaOf(microbatch, inbox.senders);
  const int link = linkOfPair[static_cast<size_t>(inbox.link + partnerOf(sender, inbox.common))];
  if (link < 0)
    return time;
  linkFree[link] = std::max({linkFree[link], time, reached}) + inbox.seconds;
  return linkFree[link];
}

/// False where an input has not come.
bool OrderPlayer::run(Rank &rank, Seat &seat, int part) {
  const int64_t turn = seat.turns[part], microbatch = rank.replica + turn * seat.replicas;
  const auto [first, last] = seat.in[part];
  for (int i = first; i < last; ++i)
    if (Inbox &inbox = inboxes[received[i]]; inbox.arrivals.at(turn) < 0) {
      inbox.isAwaited = true;
      return false;
    }
  double start = rank.clock;
  for (int i = first; i < last; ++i) {
    Inbox &inbox = inboxes[received[i]];
    start = std::max(start, arrivalOf(inbox, turn, microbatch, rank.clock));
    inbox.arrivals.take(turn);
  }
  if (starts)
    (*starts)[seat.stage].parts[part][static_cast<size_t>(microbatch)] = static_cast<int>(start);
  rank.clock = start + seat.seconds[part];
  for (int i = seat.out[part].first; i < seat.out[part].last; ++i)
    send(messages[i], microbatch, rank.clock);
  ++seat.turns[part];
  return true;
}

/// Up to the run that has to wait.
void OrderPlayer::advance(int number) {
  Rank &rank = ranks[number];
  const RankOrder &order = orders[rank.order];
  for (; !order.endsAt(rank.place) && !rank.sums; order.advance(rank.place)) {
    auto [chunk, phase] = order.at(rank.place);
    const int part = partOf(phase);
    Seat &seat = seats[static_cast<size_t>(rank.seats) + chunk];
    const int64_t turn = seat.turns[part];
    if (rest == Rest::held && (turn + 1) * seat.replicas > microbatches)
      return held.push_back(number);
    if (rest == Rest::leftOut && rank.replica + turn * seat.replicas >= microbatches)
      continue;
    if (!run(rank, seat, part))
      return;
    if (part == 1 && updatesBehind(seat.stage, turn))
      update(number, seat.stage, turn);
  }
}

/// The sums over replicas, one behind the other, that over all ranks, and the updates.
double OrderPlayer::close() const {
  std::vector<double> ends(ranks.size()), updates(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!orders[ranks[rank].order].endsAt(ranks[rank].place))
      throw Error("schedule " + schedule.name +
                  " cannot run: a task comes before one that makes its inputs");
    double &end = ends[schedule.ranksOfStage[stagesOfRank[rank][0]][0]];
    end = std::max(end, ranks[rank].clock);
  }
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    int first = schedule.ranksOfStage[stage][0];
    if (stages[stage].replicas > 1 && !costs.reductions.empty())
      ends[first] += costs.reductions[stage];
    updates[first] += costs.stages[stage].update;
  }
  return *std::ranges::max_element(ends) + costs.allReduce + *std::ranges::max_element(updates);
}

void OrderPlayer::playReady() {
  while (!ready.empty()) {
    const int rank = ready.back();
    ready.pop_back();
    advance(rank);
  }
}

double OrderPlayer::play(std::vector<RunStarts> *kept) {
  starts = kept;
  if (starts) {
    auto count = static_cast<size_t>(microbatches);
    std::vector<int> none(count, -1);
    starts->assign(stages.size(), {{none, none, none}, none});
  }
  for (int rank = countRanks(); rank-- > 0;)
    ready.push_back(rank);
  playReady();
  return close();
}

std::pair<double, double> OrderPlayer::playFirstAndAll(int64_t first) {
  const int64_t all = std::exchange(microbatches, first);
  rest = Rest::held;
  for (int rank = countRanks(); rank-- > 0;)
    ready.push_back(rank);
  playReady();
  ready = std::exchange(held, {});
  OrderPlayer alone = *this;
  alone.rest = Rest::leftOut;
  alone.playReady();
  microbatches = all;
  rest = Rest::played;
  playReady();
  return {alone.close(), close()};
}

} // namespace pdc
