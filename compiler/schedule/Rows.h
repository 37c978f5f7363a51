#pragma once

#include "compiler/schedule/Schedule.h"

#include <span>
#include <vector>

namespace pdc {

inline bool isTransfer(const Step &step) {
  return step.kind == StepKind::send || step.kind == StepKind::receive;
}

/// What a rank does at once: one run, one sum over ranks, or a group of neighbouring sends and
/// receives, which start together. Groups never span the border of an iteration or part.
struct Action {
  std::vector<Step> steps;

  bool transfers() const { return isTransfer(steps[0]); }
};

/// A finite piece of a schedule with the microbatches counted from its beginning.
struct UnrolledRows {
  std::vector<std::vector<int>> ranksOfStage;
  std::vector<std::vector<Action>> ranks;
  /// Per rank: the actions of `warmUp` and of all iterations, of the last round.
  std::vector<size_t> repeatStart, drainStart;
  int64_t microbatches = 0;
};

/// Unrolls one round per number in `iterations`: warm-up, that many repetitions, drain. A round of
/// a synchronous schedule is a minibatch, whatever the number.
UnrolledRows unroll(const Schedule &schedule, std::span<const int64_t> iterations);

/// The microbatches that one round of so many iterations takes.
int64_t microbatchesOfRound(const Schedule &schedule, int64_t iterations);

/// Whether a task of this phase is the one an edge's end means: an edge knows the backward pass as
/// a whole, input gradients come out of its first half.
bool isEnd(Phase end, const Task &task);
inline bool produces(const Task &task, const Edge &edge) {
  return task.stage == edge.fromStage && isEnd(edge.producer, task);
}
inline bool consumes(const Task &task, const Edge &edge) {
  return task.stage == edge.toStage && isEnd(edge.consumer, task);
}

/// Whether a run gives what it has made to another stage of its rank.
inline bool handsOver(const Schedule &schedule, const Task &task, const Edge &edge) {
  return produces(task, edge) && schedule.shareRanks(edge.fromStage, edge.toStage);
}

/// Per stage: whether its input and weight gradients run apart.
std::vector<bool> findSplitStages(const Schedule &schedule);
bool splitsBackward(const Schedule &schedule);

/// Edges by the stages that they leave and enter, each in the order of the list.
class StageEdges {
public:
  StageEdges(std::span<const Edge> edges, int stages) : from(stages), to(stages) {
    for (const Edge &edge : edges) {
      from[edge.fromStage].push_back(&edge);
      to[edge.toStage].push_back(&edge);
    }
  }
  std::span<const Edge *const> leaving(int stage) const { return from[stage]; }
  std::span<const Edge *const> entering(int stage) const { return to[stage]; }

private:
  std::vector<std::vector<const Edge *>> from, to;
};

/// The edges of a plain chain: activations to the next stage, gradients to the one before.
std::vector<Edge> chainEdges(int stages);

/// Throws pdc::Error when an edge names a stage that is not there, or ids are not their positions.
void checkEdges(const Schedule &schedule, std::span<const Edge> edges);

} // namespace pdc
