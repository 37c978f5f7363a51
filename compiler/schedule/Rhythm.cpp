#include "compiler/schedule/Rhythm.h"

#include "compiler/schedule/Replicas.h"

#include <algorithm>

namespace pdc {

/// The runs of one replica of a stage, which takes so many microbatches.
static RankOrder orderInRhythm(const Rhythm &rhythm, int64_t count) {
  RankOrder order;
  order.reserve(static_cast<size_t>(count) * (rhythm.split ? 3 : 2));
  int64_t ahead = std::min(rhythm.ahead, count);
  auto run = [&](Phase phase, int64_t turn) {
    if (turn >= 0 && turn < count)
      order.push_back({0, phase});
  };
  for (int64_t turn = -ahead; turn < count + rhythm.deferred; ++turn) {
    run(Phase::forward, turn + ahead);
    run(rhythm.split ? Phase::backwardInput : Phase::backward, turn);
    if (rhythm.split)
      run(Phase::backwardWeight, turn - rhythm.deferred);
  }
  return order;
}

/// Of a schedule whose stages have ranks of their own. The first replicas may have a microbatch
/// more.
static RankOrders ordersInRhythm(const ScheduleKind &kind, const Pipeline &pipeline) {
  RankOrders result;
  result.orderOfRank.resize(pipeline.ranks());
  std::vector<Rhythm> rhythms = kind.rhythms(pipeline);
  for (int stage = 0; stage < pipeline.stages; ++stage) {
    const std::vector<int> &ranks = pipeline.ranksOfStage[stage];
    auto replicas = static_cast<int64_t>(ranks.size());
    int64_t known = -1;
    for (int64_t replica = 0; replica < replicas; ++replica) {
      int64_t count = (pipeline.microbatches - replica + replicas - 1) / replicas;
      if (count != known)
        result.orders.push_back(orderInRhythm(rhythms[stage], count));
      known = count;
      result.orderOfRank[ranks[replica]] = result.orders.size() - 1;
    }
  }
  return result;
}

RankOrders ordersOf(std::string_view name, const Pipeline &pipeline) {
  const ScheduleKind &kind = findSchedule(name);
  if (kind.rhythms)
    return ordersInRhythm(kind, pipeline);
  RankOrders result;
  result.orderOfRank.resize(pipeline.ranks());
  Pipeline column = columnOf(pipeline);
  for (int place = 0; place < column.ranks(); ++place) {
    result.orders.push_back(kind.order(column, place));
    for (int rank : pipeline.ranksOfStage[place])
      result.orderOfRank[rank] = static_cast<size_t>(place);
  }
  return result;
}

static std::vector<Step> rowsOf(const Rhythm &rhythm, int stage, const std::vector<int64_t> &own) {
  return rowsInOrder(orderInRhythm(rhythm, static_cast<int64_t>(own.size())), {stage}, own);
}

Schedule makeRows(std::string_view name, const Pipeline &pipeline) {
  return makeRowsLike(name, name, pipeline);
}

Schedule makeRowsLike(std::string_view like, std::string_view name, const Pipeline &pipeline) {
  Schedule apart = emptySchedule(name, apartPipeline(pipeline));
  std::vector<Rhythm> rhythms = findSchedule(like).rhythms(pipeline);
  for (int stage = 0; stage < pipeline.stages; ++stage)
    for (int64_t replica = 0; replica < apart.replicas(stage); ++replica)
      apart.ranks[apart.ranksOfStage[stage][replica]].warmUp =
          rowsOf(rhythms[stage], stage,
                 microbatchesOf(replica, apart.replicas(stage), pipeline.microbatches));
  return mergeOntoRanks(apart, pipeline);
}

int64_t runsToWrite(std::string_view name, const Pipeline &pipeline) {
  if (findSchedule(name).synchronous)
    return runsOf(pipeline.stages, pipeline.microbatches);
  auto stages = static_cast<int64_t>(pipeline.stages);
  return 2 * stages * stages * stages;
}

Schedule spreadOverReplicas(std::string_view name, const Pipeline &pipeline) {
  Schedule schedule = emptySchedule(name, pipeline);
  RankOrders all = ordersOf(name, pipeline);
  for (int rank = 0; rank < pipeline.ranks(); ++rank) {
    std::vector<int> stages = pipeline.stagesOfRank(rank);
    const std::vector<int> &replicas = pipeline.ranksOfStage[stages[0]];
    auto count = static_cast<int64_t>(replicas.size());
    int64_t replica = std::ranges::find(replicas, rank) - replicas.begin();
    schedule.ranks[rank].warmUp =
        rowsInOrder(all.orders[all.orderOfRank[rank]], stages,
                    microbatchesOf(replica, count, pipeline.microbatches));
  }
  closeMinibatch(schedule, pipeline);
  return schedule;
}

/// Of stages that have a replica each: as many versions as microbatches in flight, or two where
/// updates sum at least as many.
static std::optional<Schedule> makeUnwrittenAsynchronous(const ScheduleKind &kind,
                                                         const Pipeline &pipeline) {
  bool sums = kind.sumsMicrobatches;
  if (pipeline.verticalSync || pipeline.ranks() != pipeline.stages ||
      (sums && pipeline.microbatches < pipeline.stages))
    return std::nullopt;
  Schedule schedule = emptyAsynchronousSchedule(kind.name, pipeline);
  schedule.ranks.clear();
  if (sums)
    schedule.weightRule = WeightRule::previous;
  schedule.microbatches = schedule.period = sums ? pipeline.microbatches : 1;
  // Behind the last backward pass of an update the next inputs have come before its slot is free.
  for (const Rhythm &rhythm : kind.rhythms(pipeline))
    schedule.slots.push_back(
        static_cast<int>(rhythm.ahead + 1 + (sums && !schedule.slots.empty())));
  schedule.versions = sums ? std::vector<int>(pipeline.stages, 2) : schedule.slots;
  return schedule;
}

/// Of stages on their own ranks.
static void addSlotsInRhythm(Schedule &schedule, const ScheduleKind &kind,
                             const Pipeline &pipeline) {
  std::vector<Rhythm> rhythms = kind.rhythms(pipeline);
  for (int stage = 0; stage < pipeline.stages; ++stage) {
    int64_t replicas = schedule.replicas(stage);
    int64_t most = (pipeline.microbatches + replicas - 1) / replicas;
    schedule.slots.push_back(static_cast<int>(rhythms[stage].inFlight(most)));
  }
}

/// Of several stages per rank, whose replicas run the same order.
static void addSlotsInOrder(Schedule &schedule, const Pipeline &pipeline) {
  schedule.slots.resize(pipeline.stages);
  RankOrders all = ordersOf(schedule.name, pipeline);
  auto places = static_cast<int>(all.orders.size());
  std::vector<std::vector<int>> stagesOfPlace(places);
  for (int stage = 0; stage < pipeline.stages; ++stage)
    stagesOfPlace[all.orderOfRank[pipeline.ranksOfStage[stage][0]]].push_back(stage);
  for (int place = 0; place < places; ++place) {
    const std::vector<int> &stages = stagesOfPlace[place];
    std::vector<bool> handsOver(stages.size());
    for (size_t chunk = 0; chunk + 1 < stages.size(); ++chunk)
      handsOver[chunk] = stages[chunk + 1] == stages[chunk] + 1;
    std::vector<int> most = mostInFlight(all.orders[place], handsOver);
    for (size_t chunk = 0; chunk < stages.size(); ++chunk)
      schedule.slots[stages[chunk]] = most[chunk];
  }
}

std::optional<Schedule> makeUnwritten(std::string_view name, const Pipeline &pipeline) {
  const ScheduleKind &kind = findSchedule(name);
  if (kind.order)
    checkPlacement(pipeline, kind.placement, name);
  if (kind.order ? !hasEqualReplicas(pipeline) : !kind.rhythms || sharesRanks(pipeline))
    return std::nullopt;
  if (!kind.synchronous)
    return makeUnwrittenAsynchronous(kind, pipeline);
  Schedule schedule = emptySchedule(name, pipeline);
  schedule.ranks.clear();
  schedule.versions.assign(pipeline.stages, 1);
  if (kind.order)
    addSlotsInOrder(schedule, pipeline);
  else
    addSlotsInRhythm(schedule, kind, pipeline);
  return schedule;
}

} // namespace pdc
