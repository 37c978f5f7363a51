#include "compiler/plan/StageMemory.h"

#include <algorithm>
#include <set>

namespace pdc {

int64_t spreadBytes(int64_t arena) {
  constexpr int64_t page = 4096;
  return std::min(arena / 64, 100 * page) / page * page;
}

/// Otherwise the backward pass is one task.
static bool leavesHalfway(const StageDepth &depth) { return depth.split && depth.sendsGradients; }

/// What the half that sends gradients recomputes lies where the other half finds it, if it reads
/// it.
int64_t StageMemory::scratch(const StageDepth &depth, bool recompute) const {
  const bool leaves = leavesHalfway(depth);
  const int64_t again = leaves ? inputStash : stash;
  const int64_t ofTask = (leaves ? splitTemporaries : temporaries) + (recompute ? again : 0);
  return workspace + std::max(ofTask, evaluationTemporaries);
}

int64_t StageMemory::total(const StageDepth &depth, bool recompute) const {
  const bool leaves = leavesHalfway(depth);
  int64_t kept = stash + (leaves ? growth : 0);
  if (recompute)
    kept = leaves ? stash - inputStash + halfway : 0;
  const int64_t bytes = weights * depth.versions + fixed + scratch(depth, recompute) +
                        (slot + kept) * depth.slots + (depth.inputsBeside ? inputs : 0);
  return bytes + (depth.spreads ? spreadBytes(bytes) : 0);
}

std::map<int, TiedUses> usesByStage(const TiedWeight &tied, const std::vector<int> &stageOfUnit) {
  std::map<int, TiedUses> uses;
  for (int unit : tied.units)
    ++uses[stageOfUnit[unit]].units;
  for (auto &[stage, own] : uses) {
    own.otherStages = static_cast<int64_t>(uses.size()) - 1;
    own.hasFirst = stage == stageOfUnit[tied.units.front()];
  }
  return uses;
}

StageMemory tiedMemory(const TiedWeight &tied, const TiedUses &uses) {
  if (uses.units == 0)
    return {};
  StageMemory memory;
  memory.weights = uses.hasFirst ? 0 : tied.parameterBytes;
  memory.fixed = gatheredSums(tied, uses) + uncountedSums(tied, uses) +
                 (uses.hasFirst ? 0 : tied.optimizerBytes);
  if (!tied.sumsTogether)
    memory.fixed += (static_cast<int64_t>(tied.units.size()) - uses.units) * tied.gradientBytes;
  return memory;
}

/// Those of the stages are summed as the weight is updated.
int64_t gatheredSums(const TiedWeight &tied, const TiedUses &uses) {
  const int64_t sums = uses.otherStages + (uses.otherStages > 0);
  return tied.sumsTogether ? sums * tied.gradientBytes : 0;
}

int64_t uncountedSums(const TiedWeight &tied, const TiedUses &uses) {
  return tied.sumsTogether && uses.units > 0 && !uses.hasFirst ? tied.gradientBytes : 0;
}

StageMemory heldOf(const SharedRead &read) {
  StageMemory memory;
  memory.weights = read.parameterBytes;
  memory.fixed = read.constantBytes;
  return memory;
}

std::vector<StageMemory> sharedMemory(const PlanGraph &graph, const std::vector<int> &stageOfUnit) {
  std::vector<StageMemory> stages(*std::ranges::max_element(stageOfUnit) + 1);
  auto add = [&](int stage, const StageMemory &held) {
    stages[stage].weights += held.weights;
    stages[stage].fixed += held.fixed;
  };
  for (const TiedWeight &tied : graph.tied)
    for (const auto &[stage, uses] : usesByStage(tied, stageOfUnit))
      add(stage, tiedMemory(tied, uses));
  for (const SharedRead &read : graph.sharedReads) {
    std::set<int> others;
    for (int unit : read.units)
      others.insert(stageOfUnit[unit]);
    others.erase(stageOfUnit[read.units.front()]);
    for (int stage : others)
      add(stage, heldOf(read));
  }
  return stages;
}

void MemorySum::add(const StageMemory &held) {
  sum.weights += held.weights;
  sum.fixed += held.fixed;
}

void MemorySum::subtract(const StageMemory &held) {
  sum.weights -= held.weights;
  sum.fixed -= held.fixed;
}

void MemorySum::add(const PlanUnit &unit, bool sends) {
  sum.weights += unit.parameterBytes;
  sum.fixed += unit.fixedBytes();
  sum.slot += unit.inputBytes;
  sum.inputs += unit.inputBytes;
  sum.stash += unit.stashBytes;
  // The backward pass of another unit runs with the weight gradients, which free nothing in time.
  if (sends) {
    sum.halfway += unit.halfwayBytes;
    freed += unit.freedStashBytes;
    sum.growth = std::max(sum.growth, sum.halfway - freed);
    sum.inputStash += unit.inputStashBytes;
  }
  sum.temporaries = std::max(sum.temporaries, unit.temporaryBytes);
  sum.splitTemporaries =
      std::max(sum.splitTemporaries, sends ? unit.splitTemporaryBytes : unit.temporaryBytes);
  sum.evaluationTemporaries = std::max(sum.evaluationTemporaries, unit.evaluationTemporaryBytes);
  sum.workspace = std::max(sum.workspace, unit.workspaceBytes);
}

void CrossingBytes::addSent(const PlanValue &value, int end) {
  stashed += value.isStashed ? value.bytes : 0;
  forInputs += value.freedAt >= 0 ? value.bytes : 0;
  freed += value.freedAt >= 0 && value.freedAt < end ? value.bytes : 0;
}

StageMemory MemorySum::with(const CrossingBytes &crossing) const {
  const int64_t evaluated = sum.slot + crossing.values;
  StageMemory memory = sum;
  memory.fixed += evaluationCopies * evaluated;
  memory.slot = evaluated + crossing.gradients;
  memory.stash -= crossing.stashed;
  memory.inputStash = std::max<int64_t>(0, memory.inputStash - crossing.forInputs);
  memory.growth += crossing.freed;
  return memory;
}

} // namespace pdc
