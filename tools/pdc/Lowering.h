#pragma once

#include "compiler/onnx/Model.h"
#include "compiler/plan/Plan.h"
#include "tools/pdc/Options.h"
#include "tools/pdc/PlannedGraph.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <string>

namespace pdc {

/// The steps from a model to the sources of its stages; each throws Error. Modules live no longer
/// than it does.
class Lowering {
public:
  /// Reads the model.
  Lowering(const Options &options, std::ostream &progress);

  /// The graph of the batch, among those left open, that the planner finds the fastest per sample.
  /// A batch that fits no plan (memory) is passed over while others do.
  /// `memoryAllowance`: of MemoryLimit.
  PlannedGraph chooseGraph(double memoryAllowance = 1);

  /// In plans from now on, whatever was asked for.
  void recomputeAll() { options.plan.recompute.kind = RecomputeChoice::all; }

  /// Levels 2, 3 and 4, in place.
  void cut(PlannedGraph &graph);
  void outline(PlannedGraph &graph);
  /// Puts the memory that was laid out into the plan.
  void schedule(PlannedGraph &graph);

  /// Of a plan of level 4: the part of its device's memory that a rank needs, at most; 0: it is not
  /// limited.
  double memoryShare(const Plan &plan) const;
  /// Throws MemoryError where that is more than all.
  void checkMemory(const Plan &plan) const;

  /// Writes a graph of level 4: sources, build files, plan and weights.
  void write(const PlannedGraph &graph, const std::filesystem::path &folder);

  Model model;

private:
  void usePartition();
  void lower(PlannedGraph &graph, const std::string &what,
             const std::function<void(mlir::PassManager &)> &build);
  void readSchedule();
  PlannedGraph makeGraph(int64_t microbatchSize, const std::string &which);
  int64_t memoryOf(const Plan &plan, int rank) const;
  void annotate(const Plan &plan);

  Options options;
  /// Stages by hand come from the file's annotations.
  bool hasPartition = false;
  bool isAsynchronous = false;
  bool sumsMicrobatches = true; ///< updates are those of several
  std::ostream &progress;
  mlir::MLIRContext context;
  bool isVerified = false; ///< the graph of some batch
  /// Graphs of several batches and plans repeat them.
  std::set<std::string> shownWarnings, told;
};

} // namespace pdc
