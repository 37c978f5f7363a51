#pragma once

#include "compiler/onnx/Model.h"
#include "compiler/plan/Plan.h"
#include "tools/pdc/Batches.h"
#include "tools/pdc/Options.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <string>

namespace pdc {

/// A module at level 1 and the plan that was made for it.
struct PlannedGraph {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const PlanGraph> units; ///< what the plan was made from
  Batch batch;
  std::set<std::string> warnings; ///< of this graph
};

/// The steps from a model to the sources of its stages; each throws Error. Modules live no longer
/// than it does.
class Lowering {
public:
  /// Reads the model.
  Lowering(const Options &options, std::ostream &progress);

  /// The graph of the batch, among those left open, that the planner finds the fastest per sample.
  /// A batch that fits no plan (memory) is passed over while others do.
  PlannedGraph chooseGraph();

  /// Levels 2, 3 and 4, in place.
  void cut(PlannedGraph &graph);
  void outline(PlannedGraph &graph);
  /// Puts the memory that was laid out into the plan; throws Error where a device has less.
  void schedule(PlannedGraph &graph);

  /// Writes a graph of level 4: sources, build files, plan and weights.
  void write(const PlannedGraph &graph, const std::filesystem::path &folder);

  Model model;

private:
  void usePartition();
  void lower(PlannedGraph &graph, const std::string &what,
             const std::function<void(mlir::PassManager &)> &build);
  std::optional<Schedule> rowsOfFile() const;
  bool isAsynchronous() const;
  bool sumsMicrobatches() const;
  PlannedGraph makeGraph(int64_t microbatchSize);
  PlanRequest request(const Batch &batch, const PlanGraph &units) const;
  void checkMinibatch(const Plan &plan) const;
  /// The best of these batches of one microbatch size.
  /// Without a plan where no batch can take fewer seconds per sample than the limit.
  PlannedGraph planFor(const std::vector<Batch> &batches, double limit);
  double leastSeconds(const Batch &batch, const PlanRequest &asked, const PlanGraph &units) const;
  void leaveOut(SizeRange &sizes, int64_t slower, const PlannedGraph &best);
  std::vector<Batch> batches() const;
  void checkMemory(const Plan &plan) const;
  void annotate(const Plan &plan);

  Options options;
  /// Stages by hand come from the file's annotations.
  bool hasPartition = false;
  std::ostream &progress;
  mlir::MLIRContext context;
  bool isVerified = false; ///< the graph of some batch
  /// Graphs of several batches repeat them.
  std::set<std::string> shownWarnings;
};

} // namespace pdc
