#pragma once

#include "compiler/Tries.h"
#include "compiler/onnx/Model.h"
#include "tools/pdc/Options.h"
#include "tools/pdc/PlannedGraph.h"

#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <vector>

namespace pdc {

/// Whose batch is chosen: what it refers to outlives the choice.
struct BatchSubject {
  const Model &model;
  const Options &options;
  bool sums = true; ///< updates are those of several microbatches
  /// Stages by hand come from the file's annotations.
  bool hasPartition = false;
  double memoryAllowance = 1;
  std::set<std::string> &told; ///< to who waits
};

/// As planned.
double secondsPerSample(const PlannedGraph &graph);

/// Chooses how the samples of an update are cut, by planning what is left open.
class BatchChoice {
public:
  /// The training graph for microbatches of so many samples; `which`: of several sizes, for those
  /// who wait.
  using MakeGraph = std::function<PlannedGraph(int64_t microbatchSize, const std::string &which)>;

  BatchChoice(const BatchSubject &subject, MakeGraph makeGraph, std::ostream &progress);

  /// The graph of the batch that the planner finds the fastest per sample. A batch that fits no
  /// plan (memory) is passed over while others do; throws Error where none does.
  PlannedGraph choose();

private:
  /// The batches of one microbatch size.
  using Size = std::vector<Batch>;

  static int64_t sizeOf(const Size &size);
  std::vector<Batch> batches() const;
  PlannedGraph &graphOf(int64_t microbatchSize);
  PlannedGraph graphWithUnits(int64_t microbatchSize, const std::string &which) const;
  void orderByExpectation(std::vector<Size> &sizes);
  bool promisesMore(const Size &size) const;
  void plan(const Size &size);
  void planBatch(PlannedGraph &graph, const Batch &batch) const;
  bool mayMislead(const Plan &plan) const;
  void planDataParallelism();
  PlanRequest request(const Batch &batch, const PlanGraph &units) const;
  void tell(const std::string &text) const;
  double leastSeconds(const Batch &batch, const PlanRequest &asked, const PlanGraph &units) const;
  void checkMinibatch(const Plan &plan) const;
  void tellUnplanned(std::vector<int64_t> sizes) const;

  BatchSubject subject;
  const Options &options;
  MakeGraph makeGraph;
  std::ostream &progress;
  std::optional<Topology> topology;
  Tries tries;
  size_t sizeCount = 0, begun = 0;      ///< sizes
  std::map<int64_t, PlannedGraph> made; ///< by microbatch size, not planned yet
  /// By microbatch size, seconds per sample. Empty: all sizes are planned.
  std::map<int64_t, double> expected;
  std::vector<int64_t> planned; ///< sizes
  std::optional<PlannedGraph> best;
};

} // namespace pdc
