#pragma once

#include "compiler/schedule/Idle.h"
#include "compiler/schedule/RankOrder.h"
#include "compiler/schedule/Schedule.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pdc {

/// What a schedule is made for.
struct Pipeline {
  int stages = 1;
  /// As in Schedule: the replicas of each stage; several stages may share their ranks.
  std::vector<std::vector<int>> ranksOfStage;
  /// Microbatches per update of the whole model, all replicas together (pipedream ignores it: a
  /// stage updates behind each microbatch of every replica).
  int64_t microbatches = 1;
  /// pipedream: every stage gives a microbatch the version that stood at stage 0 when it entered.
  bool verticalSync = false;

  int ranks() const;
  std::vector<int> stagesOfRank(int rank) const;
};

/// One stage per rank, in order.
Pipeline straightPipeline(int stages, int64_t microbatches);
/// Stages with so many replicas each, on ranks of their own, in order.
Pipeline replicatedPipeline(std::span<const int> replicas, int64_t microbatches);

/// Whether a rank has several stages.
bool sharesRanks(const Pipeline &pipeline);

/// The rows of a stage in three numbers. Forward passes run `ahead` of the backward passes; where
/// these are `split`, weight gradients come `deferred` microbatches behind the input gradients:
///
///     ahead 2               F0 F1 F2 B0 F3 B1 F4 B2 B3 B4
///     ahead 1, deferred 1   F0 F1 I0 F2 I1 W0 F3 I2 W1 F4 I3 W2 I4 W3 W4
struct Rhythm {
  int64_t ahead = 0, deferred = 0;
  bool split = false;

  /// Microbatches between forward and end of the backward pass, at most, where a replica has so
  /// many.
  int64_t inFlight(int64_t own) const {
    return own - ahead > deferred ? ahead + deferred + 1 : own;
  }
};

/// Which rank has which stage.
enum class StagePlacement : uint8_t {
  straight, ///< one stage per rank (and replica), in order
  loop,     ///< stage s on rank s mod p: several chunks of the model per rank
  fold,     ///< down the ranks and up again: stages r and 2p-1-r on rank r
};

/// Stages on so many places, `chunks` on each; a place is a rank, or as many `replicas` of one.
Pipeline placedPipeline(StagePlacement placement, int places, int chunks, int64_t microbatches,
                        int replicas = 1);
/// A place has so many replicas of a rank.
Pipeline placedPipeline(StagePlacement placement, std::span<const int> replicas, int chunks,
                        int64_t microbatches);

/// Whether all stages have as many replicas.
bool hasEqualReplicas(const Pipeline &pipeline);

/// One replica of each rank of a placed pipeline of equal replicas, with its part of the
/// microbatches. Throws pdc::Error when replicas cannot share them equally.
Pipeline columnOf(const Pipeline &pipeline);

/// The rows of a schedule whose column has such orders on every replica, with the end of a
/// minibatch: its microbatch k is number k r + j of replica j of r.
Schedule spreadOverReplicas(std::string_view name, const Pipeline &pipeline);

/// Throws pdc::Error unless the stages stand as the schedule places them.
void checkPlacement(const Pipeline &pipeline, StagePlacement placement, std::string_view schedule);

/// The compute rows only: transfers, slots and versions are added by `completeSchedule`.
Schedule gpipe(const Pipeline &pipeline);
Schedule oneFOneB(const Pipeline &pipeline);
Schedule pipedream(const Pipeline &pipeline);
Schedule twoVersions(const Pipeline &pipeline);
Schedule zeroBubbleH1(const Pipeline &pipeline);
Schedule zeroBubbleH2(const Pipeline &pipeline);
Schedule interleaved(const Pipeline &pipeline);
Schedule zeroBubbleV(const Pipeline &pipeline);

/// By stage; where ranks have one stage each, these are the rows.
std::vector<Rhythm> gpipeRhythms(const Pipeline &pipeline);
std::vector<Rhythm> oneFOneBRhythms(const Pipeline &pipeline);
std::vector<Rhythm> zeroBubbleH1Rhythms(const Pipeline &pipeline);
std::vector<Rhythm> zeroBubbleH2Rhythms(const Pipeline &pipeline);
std::vector<Rhythm> pipedreamRhythms(const Pipeline &pipeline);

/// Evaluation: one microbatch per iteration, forward through all stages.
Schedule evaluation(const Pipeline &pipeline);

/// The rows of schedules that place several stages on each rank: of a column, by rank.
RankOrder interleavedOrder(const Pipeline &column, int rank);
RankOrder zeroBubbleVOrder(const Pipeline &column, int rank);

struct ScheduleKind {
  std::string_view name;
  std::string_view text;
  bool synchronous;
  bool sumsMicrobatches; ///< updates are those of several microbatches
  Schedule (*make)(const Pipeline &);
  StagePlacement placement = StagePlacement::straight;
  /// By stage, where rhythms say all about the rows; else null.
  std::vector<Rhythm> (*rhythms)(const Pipeline &) = nullptr;
  /// Of several stages per rank with equal replicas.
  RankOrder (*order)(const Pipeline &column, int rank) = nullptr;
  /// Seconds of an update in which each rank of an even pipeline waits; null: none, since updates
  /// do not.
  double (*idle)(const EvenPipeline &) = nullptr;
};

/// Whether its weight gradients are runs of their own.
bool splitsBackward(const ScheduleKind &kind);

/// All schedules by name, from the simplest to what is hardest to follow, synchronous ones first:
/// `auto` tries these in this order. A new one is a file with its drawing and a line here.
std::span<const ScheduleKind> schedules();

/// As in "1f1b, gpipe".
std::string scheduleNames();

/// Throws pdc::Error with the known names.
const ScheduleKind &findSchedule(std::string_view name);

/// Adds transfers, slots and versions to compute rows and proves the result: what a pass applies
/// is never unproven. The rows are those of a known schedule, or checkRowsOfFile (RunCounts.h) has
/// let them pass: transfers and slots count on every stage running every microbatch.
Schedule completeSchedule(Schedule schedule, std::span<const Edge> edges);

/// The rows of a rank of a synchronous schedule, closed by the sums over replicas and over all
/// ranks, and the updates.
void closeMinibatch(Schedule &schedule, const Pipeline &pipeline);

/// A synchronous schedule whose stages have a rank each, on the ranks of the pipeline: a rank with
/// several stages takes their runs in the order in which ranks of their own would start them, which
/// is that of a valid execution and cannot stall for ever.
Schedule mergeOntoRanks(const Schedule &apart, const Pipeline &pipeline);

/// The same stages and replicas, each on a rank of its own.
Pipeline apartPipeline(const Pipeline &pipeline);

/// A schedule without rows for the pipeline.
Schedule emptySchedule(std::string_view name, const Pipeline &pipeline);

/// The same for an asynchronous schedule, each of whose ranks has one stage.
Schedule emptyAsynchronousSchedule(std::string_view name, const Pipeline &pipeline);

/// One forward, one backward pass on each replica, as far ahead as forwardsAhead says, in the
/// period of the schedule, which is whole updates and turns of all stages.
void fillAsynchronousRows(Schedule &schedule);

Step runStep(int stage, Phase phase, int64_t microbatch);

/// Appends the update behind microbatch `last`, and the sum over replicas in front of it where the
/// stage has several.
void appendUpdate(std::vector<Step> &rows, const Schedule &schedule, int stage, int64_t last);

} // namespace pdc
