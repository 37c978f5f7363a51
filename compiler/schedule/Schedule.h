#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pdc {

enum class Phase : uint8_t {
  forward,
  backward,
  backwardInput,
  backwardWeight,
  update,
  prepare,
  evaluate
};

/// F, B, I, W, U, P, E.
char letter(Phase phase);

/// One run of a task: "2F0" is stage 2, forward, microbatch 0. Update rows carry the number of the
/// last microbatch that the stage's update includes, the same on all of its replicas.
struct Task {
  int stage = 0;
  Phase phase = Phase::forward;
  int64_t microbatch = 0;

  auto operator<=>(const Task &) const = default;
};

std::string toString(const Task &task);

/// One tensor that goes from one stage to another for each microbatch. `producer` and `consumer`
/// are the phases of the tasks that write and first read it.
struct Edge {
  int id = 0;
  std::string tensor;
  int fromStage = 0;
  int toStage = 0;
  Phase producer = Phase::forward;
  Phase consumer = Phase::forward;
  int64_t bytes = 0;
};

/// allReduce sums losses over all ranks; reduceGradients sums the gradients of a stage over its
/// replicas.
enum class StepKind : uint8_t { run, send, receive, allReduce, reduceGradients };

/// One row of a rank. Neighbouring sends and receives form one group: they progress together.
/// In the repeated part of an asynchronous schedule microbatches are relative to the iteration:
/// iteration i adds i * period.
struct Step {
  StepKind kind = StepKind::run;
  /// run: the task; send, receive: the task that produced or will consume it; reduceGradients: the
  /// update that needs the sum.
  Task task;
  int edge = -1; ///< send, receive: Edge::id
  int peer = -1; ///< send, receive: the other rank

  bool operator==(const Step &) const = default;
};

/// The rows of one rank. A synchronous schedule has everything of one minibatch in `warmUp` and
/// nothing repeats; an asynchronous one runs warmUp once, repeat any number of times, then drain.
struct RankRows {
  std::vector<Step> warmUp;
  std::vector<Step> repeat;
  std::vector<Step> drain;
};

/// Which version of its weights a stage of an asynchronous schedule gives to a microbatch; see
/// versionRead in Versions.h.
enum class WeightRule : uint8_t {
  stashed,  ///< the newest when its forward pass begins, kept for its backward pass
  atEntry,  ///< vertical sync: the newest that stage 0 had when it entered, the same at every stage
  previous, ///< 2BW: the one before that which the microbatches before its update make
};

struct Schedule {
  std::string name;
  bool asynchronous = false;
  WeightRule weightRule = WeightRule::stashed;
  /// Microbatches per update of the whole model. 1 in an asynchronous schedule that does not sum
  /// them: there a stage updates behind each microbatch of all of its replicas.
  int64_t microbatches = 1;
  /// Microbatches that one iteration of `repeat` advances (asynchronous only).
  int64_t period = 0;
  std::vector<RankRows> ranks;
  /// The ranks of each stage, its replicas: microbatch k (of a minibatch, where the schedule is
  /// synchronous) of a stage with r of them runs on the one at k % r. Two stages share all of their
  /// ranks or none.
  std::vector<std::vector<int>> ranksOfStage;
  /// Per stage: microbatches in flight on a replica at most, i.e. slots for stashed activations.
  std::vector<int> slots;
  /// Per stage of r replicas: the slot of microbatch k is slotTable[stage][k / r % size].
  std::vector<std::vector<int>> slotTable;
  /// Per stage: weight versions alive at once.
  std::vector<int> versions;

  /// Whether updates sum `microbatches` of them, the same at all stages.
  bool sumsMicrobatches() const { return !asynchronous || weightRule == WeightRule::previous; }
  int stages() const { return static_cast<int>(ranksOfStage.size()); }
  int64_t replicas(int stage) const { return static_cast<int64_t>(ranksOfStage[stage].size()); }
  int rankOf(int stage, int64_t microbatch) const {
    int64_t number = asynchronous ? microbatch : microbatch % microbatches;
    return ranksOfStage[stage][number % replicas(stage)];
  }
  /// Whether what goes from one stage to the other stays on its rank.
  bool shareRanks(int stage, int other) const { return ranksOfStage[stage] == ranksOfStage[other]; }
};

} // namespace pdc
