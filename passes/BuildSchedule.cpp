#include "passes/Passes.h"
#include "passes/PlanChoice.h"
#include "passes/Refusal.h"
#include "passes/ScheduleRows.h"

#include "compiler/Error.h"
#include "compiler/schedule/Rows.h"
#include "compiler/schedule/Schedules.h"

namespace pdc {
#define GEN_PASS_DEF_BUILDSCHEDULE
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

struct BuildSchedule : impl::BuildScheduleBase<BuildSchedule> {
  using BuildScheduleBase::BuildScheduleBase;
  explicit BuildSchedule(std::shared_ptr<const Plan> plan) : plan(std::move(plan)) {}

  void runOnOperation() override {
    auto body = [&] {
      build();
      return success();
    };
    if (failed(runChecked(getOperation(), body)))
      signalPassFailure();
  }

private:
  void build() {
    ModuleOp module = getOperation();
    constexpr int64_t most = 1 << 20;
    if (microbatches < 1 || microbatches > most)
      throw Error("microbatches " + std::to_string(microbatches) + ", expected 1 to " +
                  std::to_string(most));
    plan = choosePlan(plan, planFile);
    Pipeline pipeline = findPipeline();
    // 1. Training: rows, and the slots and versions that its transfers leave alive.
    TaggedEdges edges = findEdges(module, Rows::training);
    Schedule training = completeSchedule(trainingRows(pipeline), edges.edges);
    writeSchedule(module, withoutTransfers(training), Rows::training, edges);
    for (auto program : module.getOps<ProgramOp>())
      for (auto stage : program.getOps<StageOp>()) {
        const std::vector<int> &slots = training.slotTable[stage.getId()];
        stage.setSlots(std::vector<int64_t>(slots.begin(), slots.end()));
        stage.setVersions(training.versions[stage.getId()]);
      }
    // 2. Evaluation.
    writeSchedule(module, evaluation(pipeline), Rows::evaluation,
                  findEdges(module, Rows::evaluation));
  }

  Pipeline findPipeline() {
    Pipeline pipeline{0, {}, plan ? plan->microbatches : microbatches};
    for (auto program : getOperation().getOps<ProgramOp>())
      for (auto stage : program.getOps<StageOp>()) {
        pipeline.stages = std::max<int>(pipeline.stages, stage.getId() + 1);
        pipeline.ranksOfStage.resize(pipeline.stages);
        pipeline.ranksOfStage[stage.getId()].assign(program.getRanks().begin(),
                                                    program.getRanks().end());
      }
    if (pipeline.stages == 0)
      throw Error("the module has no programs; run outline-programs first");
    pipeline.microbatches *= static_cast<int64_t>(pipeline.ranksOfStage[0].size());
    pipeline.verticalSync = plan && plan->schedule.weightRule == WeightRule::atEntry;
    return pipeline;
  }

  Schedule trainingRows(const Pipeline &pipeline) {
    Schedule rows =
        plan ? computeRows(*plan, pipeline) : findSchedule(schedule.getValue()).make(pipeline);
    bool asynchronous = getOperation()->hasAttr("pdc.asynchronous");
    if (rows.asynchronous != asynchronous)
      throw Error("schedule " + rows.name + " is " +
                  (asynchronous
                       ? "synchronous, but the graph was made for one update per microbatch"
                       : "asynchronous, but the graph was made for sums over microbatches") +
                  "; choose the schedule before the graph is differentiated");
    checkTasks(rows);
    if (rows.ranksOfStage != pipeline.ranksOfStage)
      throw Error("the rows place stages on other ranks than the programs; make rows, stages and "
                  "ranks of the plan agree");
    return rows;
  }

  /// Rows run halves of the backward pass where there are such tasks, and nowhere else.
  void checkTasks(const Schedule &rows) {
    std::vector<bool> split = findSplitStages(rows);
    getOperation().walk([&](TaskOp task) {
      size_t stage = cast<StageOp>(task->getParentOp()).getId();
      bool whole = task.getPhase() == ir::Phase::Backward;
      bool half = task.getPhase() == ir::Phase::BackwardInput;
      if (stage < split.size() && (split[stage] ? whole : half))
        throw Error("schedule " + rows.name + " runs the backward pass of stage " +
                    std::to_string(stage) + (whole ? " in halves" : " as a whole") +
                    ", and its task is " + (whole ? "whole" : "divided") +
                    "; give split-backward the same plan");
    });
  }

  std::shared_ptr<const Plan> plan;
};

} // namespace

std::unique_ptr<Pass> createBuildSchedule(std::shared_ptr<const Plan> plan) {
  return std::make_unique<BuildSchedule>(std::move(plan));
}

} // namespace pdc
