#pragma once

#include "compiler/plan/PlanMemory.h"
#include "compiler/schedule/Rhythm.h"

namespace pdc {

/// A plan and what it was made from.
struct Planned {
  Plan plan;
  std::vector<int> stageOfUnit;
  CutMemory memory;
};

/// Makes one plan of a checked request under `overlap`: stages, rows, memory, predicted seconds.
class Planner {
public:
  /// Rows of more runs than `mostRuns` are not written, where planning can do without.
  Planner(const PlanGraph &graph, const PlanRequest &request, int64_t mostRuns = kMostWrittenRuns);

  /// With the request's own schedule (`auto`: 1f1b), cut so that the slowest stage is as fast as it
  /// can be, or where ranks have several stages and that is faster, for the rank with most to do.
  Planned make() const;
  /// The same with a better cut, where moving units makes it faster as it is played: so many runs.
  Planned improve(Planned planned, int64_t runs = 20'000) const;
  /// With stages and rows that are known. Slots and versions are those of a chain of as many
  /// stages: where the cuts are changes them seldom.
  Planned makeWith(std::vector<int> stageOfUnit, const Schedule &rows) const;
  /// The same plan with its transfers, proven, and what its rows hold with them. Takes longer than
  /// all else, so that only what was chosen is completed.
  Planned complete(const Planned &planned) const;
  /// The compute rows of the request's schedule, or what is known of them unwritten.
  Schedule computeRows(int stages) const;
  /// Bytes of these devices; 0: not limited.
  int64_t memoryLimit(std::span<const int> ranks) const;

  /// Adds what a reader compares a plan with: bounds and baselines.
  void describe(Planned &planned) const;

private:
  Planned makeOf(std::vector<int> stageOfUnit, const Schedule &rows, bool complete) const;
  /// All of a plan but its seconds.
  Planned holdOf(std::vector<int> stageOfUnit, const Schedule &rows, bool complete) const;
  const Schedule &rowsWithDepths(int stages) const;
  std::vector<int> assigned() const;
  std::vector<int> cutByHand() const;
  std::vector<int64_t> connectionBytesOfCuts(const Schedule &rows, bool tied) const;
  std::vector<std::vector<int>> findCuts() const;
  int countStages() const;

  const PlanGraph &graph;
  const PlanRequest &request;
  int64_t mostRuns;
  Plan head; ///< without stages
  mutable std::map<int, Schedule> rowsOfStages;
};

/// The plan without stages: what it copies of the request, and its topology.
Plan planHead(const PlanRequest &request);

} // namespace pdc
