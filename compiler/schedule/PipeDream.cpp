#include "compiler/Error.h"
#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Schedules.h"

namespace pdc {

/// The rows of one replica of a stage, whose turn comes every `replicas` microbatches. An update
/// follows the last turn that it sums.
static RankRows rowsOfReplica(const Schedule &schedule, int stage, int64_t replica, int64_t ahead,
                              int64_t drained) {
  RankRows rows;
  int64_t replicas = schedule.replicas(stage);
  auto forward = [&](std::vector<Step> &part, int64_t turn) {
    part.push_back(runStep(stage, Phase::forward, turn * replicas + replica));
  };
  auto backward = [&](std::vector<Step> &part, int64_t turn) {
    part.push_back(runStep(stage, Phase::backward, turn * replicas + replica));
    int64_t end = (turn + 1) * replicas;
    if (end % microbatchesPerUpdate(schedule, stage) == 0)
      appendUpdate(part, schedule, stage, end - 1);
  };
  for (int64_t turn = 0; turn < ahead; ++turn)
    forward(rows.warmUp, turn);
  for (int64_t turn = 0; turn < schedule.period / replicas; ++turn) {
    forward(rows.repeat, turn + ahead);
    backward(rows.repeat, turn);
  }
  for (int64_t turn = 0; turn < drained / replicas; ++turn) {
    if (turn + ahead < drained / replicas)
      forward(rows.drain, turn + ahead);
    backward(rows.drain, turn);
  }
  return rows;
}

std::vector<Rhythm> pipedreamRhythms(const Pipeline &pipeline) {
  std::vector<Rhythm> rhythms;
  for (int64_t ahead : forwardsAhead(pipeline.ranksOfStage, true))
    rhythms.push_back({ahead});
  return rhythms;
}

void fillAsynchronousRows(Schedule &schedule) {
  std::vector<int64_t> ahead = forwardsAhead(schedule.ranksOfStage, true);
  // Whole turns of every stage, and no fewer than the first has put into the pipeline.
  int64_t inFlight = ahead[0] * schedule.replicas(0), period = schedule.period;
  int64_t drained = (inFlight + period - 1) / period * period;
  for (int stage = 0; stage < schedule.stages(); ++stage)
    for (int64_t replica = 0; replica < schedule.replicas(stage); ++replica)
      schedule.ranks[schedule.ranksOfStage[stage][replica]] =
          rowsOfReplica(schedule, stage, replica, ahead[stage], drained);
}

Schedule emptyAsynchronousSchedule(std::string_view name, const Pipeline &pipeline) {
  Schedule schedule = emptySchedule(name, pipeline);
  int placed = apartPipeline(pipeline).ranks();
  if (pipeline.ranks() != placed)
    throw Error("schedule " + schedule.name + " places one stage on each rank, found " +
                std::to_string(pipeline.stages) + " stages on " + std::to_string(pipeline.ranks()) +
                " ranks; use 1f1b or gpipe");
  schedule.asynchronous = true;
  return schedule;
}

// 3 stages; warm-up | repeat ... | drain. An update follows each B:
//
//   stage 0  F0 F1 | F2 .  .  B0 F3 B1 F4 B2 | .  B3 .  B4
//   stage 1  .  F0 | F1 .  B0 F2 B1 F3 B2    | F4 B3 .  B4
//   stage 2  .  .  | F0 B0 F1 B1 F2 B2       | F3 B3 F4 B4
//
// The ranks leave `repeat` after the same number of iterations; a stage has then run `ahead`
// forward passes more than backward passes. The drain brings all to the same microbatch.
//
// 1F1B-RR, 2 stages, the first with 2 replicas, 2 microbatches per iteration; an update of stage 0
// sums the gradients of two microbatches, so rank 0 waits behind B0 until B1 has run:
//
//   rank 0  0F0 | 0F2 .   0B0 .   .   0F4 0B2 ...
//   rank 1  0F1 | 0F3 .   .   .   0B1 0F5 .   .   0B3 ...
//   rank 2  .   | 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3 ...
//
// Vertical sync runs the same rows. What changes is the version that a microbatch reads: with
// stashing the newest of its stage, under vertical sync that of stage 0 at its entry, so that the
// last stage keeps as many versions as the first.
Schedule pipedream(const Pipeline &pipeline) {
  Schedule schedule = emptyAsynchronousSchedule("pipedream", pipeline);
  if (pipeline.verticalSync)
    schedule.weightRule = WeightRule::atEntry;
  schedule.microbatches = 1;
  schedule.period = writtenPeriod(schedule);
  fillAsynchronousRows(schedule);
  return schedule;
}

} // namespace pdc
