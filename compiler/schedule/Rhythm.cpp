#include "compiler/schedule/Rhythm.h"

#include "compiler/schedule/Replicas.h"

#include <algorithm>
#include <array>

namespace pdc {

/// The runs of one replica of a stage, which takes so many microbatches. Which of a turn's runs
/// there are changes at a few turns only.
static RankOrder orderInRhythm(const Rhythm &rhythm, int64_t count) {
  RankOrder order;
  const int64_t ahead = std::min(rhythm.ahead, count), end = count + rhythm.deferred;
  std::array<int64_t, 6> borders = {-ahead, 0, rhythm.deferred, count - ahead, count, end};
  std::ranges::sort(borders);
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    const int64_t turn = borders[i];
    std::vector<OrderedRun> group;
    auto run = [&](Phase phase, int64_t of) {
      if (of >= 0 && of < count)
        group.push_back({0, phase});
    };
    run(Phase::forward, turn + ahead);
    run(rhythm.split ? Phase::backwardInput : Phase::backward, turn);
    if (rhythm.split)
      run(Phase::backwardWeight, turn - rhythm.deferred);
    order.append(group, borders[i + 1] - turn);
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
  const ScheduleKind &kind = findSchedule(name);
  if (kind.synchronous)
    return runsOf(pipeline.stages, pipeline.microbatches);
  auto stages = static_cast<int64_t>(pipeline.stages);
  // The proof plays whole periods until all slots have been taken anew, in as many ways; where
  // replicas differ a single one has as many slots as the others together.
  const int64_t turns = std::max<int64_t>(stages, pipeline.ranks() / 2);
  const int64_t period =
      routingPeriod(pipeline.ranksOfStage, kind.sumsMicrobatches ? pipeline.microbatches : 1);
  return 2 * stages * std::max(turns * turns * routingPeriod(pipeline.ranksOfStage), period);
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

/// As many versions as microbatches of a replica in flight, under vertical sync as many as of stage
/// 0 at every stage, or two where updates sum at least as many as all have in flight.
static std::optional<Schedule> makeUnwrittenAsynchronous(const ScheduleKind &kind,
                                                         const Pipeline &pipeline) {
  Schedule schedule = emptyAsynchronousSchedule(kind.name, pipeline);
  schedule.ranks.clear();
  schedule.microbatches = schedule.period = kind.sumsMicrobatches ? pipeline.microbatches : 1;
  if (pipeline.verticalSync)
    schedule.weightRule = WeightRule::atEntry;
  std::vector<Rhythm> rhythms = kind.rhythms(pipeline);
  for (int stage = 0; stage < pipeline.stages; ++stage) {
    const int64_t flying = rhythms[stage].ahead + 1, replicas = schedule.replicas(stage);
    if (kind.sumsMicrobatches &&
        (flying * replicas > schedule.microbatches || schedule.microbatches % replicas))
      return std::nullopt;
    const int64_t aged = rhythms[pipeline.verticalSync ? 0 : stage].ahead + 1;
    schedule.versions.push_back(kind.sumsMicrobatches ? 2 : static_cast<int>(aged));
  }
  if (kind.sumsMicrobatches)
    schedule.weightRule = WeightRule::previous;
  return schedule;
}

/// Of stages on their own ranks.
static std::vector<int> peaksInRhythm(const Schedule &schedule, const ScheduleKind &kind,
                                      const Pipeline &pipeline) {
  std::vector<int> peaks;
  std::vector<Rhythm> rhythms = kind.rhythms(pipeline);
  for (int stage = 0; stage < pipeline.stages; ++stage) {
    int64_t replicas = schedule.replicas(stage);
    int64_t most = (pipeline.microbatches + replicas - 1) / replicas;
    peaks.push_back(static_cast<int>(schedule.asynchronous ? rhythms[stage].ahead + 1
                                                           : rhythms[stage].inFlight(most)));
  }
  return peaks;
}

/// Of several stages per rank, whose replicas run the same order.
static std::vector<int> peaksInOrder(const Schedule &schedule, const Pipeline &pipeline) {
  std::vector<int> peaks(pipeline.stages);
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
      peaks[stages[chunk]] = most[chunk];
  }
  return peaks;
}

std::vector<int> unwrittenPeaks(const Schedule &schedule) {
  const ScheduleKind &kind = findSchedule(schedule.name);
  const Pipeline pipeline{schedule.stages(), schedule.ranksOfStage, schedule.microbatches};
  return kind.order ? peaksInOrder(schedule, pipeline) : peaksInRhythm(schedule, kind, pipeline);
}

std::optional<Schedule> makeUnwritten(std::string_view name, const Pipeline &pipeline) {
  const ScheduleKind &kind = findSchedule(name);
  if (kind.order)
    checkPlacement(pipeline, kind.placement, name);
  if ((kind.order || pipeline.verticalSync) && !hasEqualReplicas(pipeline))
    return std::nullopt;
  if (!kind.order && (!kind.rhythms || sharesRanks(pipeline)))
    return std::nullopt;
  if (!kind.synchronous)
    return makeUnwrittenAsynchronous(kind, pipeline);
  Schedule schedule = emptySchedule(name, pipeline);
  schedule.ranks.clear();
  schedule.versions.assign(pipeline.stages, 1);
  return schedule;
}

} // namespace pdc
