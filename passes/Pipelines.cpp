#include "passes/Pipelines.h"
#include "passes/Passes.h"

#include "mlir/Transforms/Passes.h"

namespace pdc {

void buildGraphPipeline(mlir::OpPassManager &passes, const GraphOptions &options) {
  // First, because every rule below asks for static shapes and for the values of shapes and axes.
  passes.addPass(createInferShapes());
  // Before differentiating: no gradient for what does nothing, and names of forward nodes that
  // backward nodes point to stay.
  passes.addPass(mlir::createCanonicalizerPass());
  // Needs evaluated constants, beside which only what is large is left; before others look for what
  // several read.
  passes.addPass(createMergeConstants());
  // Before differentiating: parts have one gradient together. Before attention is recognised, which
  // reads the parts of a Split as one tensor, where they lie in the tensor's own order.
  passes.addPass(createJoinSlices());
  passes.addPass(createHoistSplits());
  // Before differentiating too: a whole operator has one gradient, its parts have many.
  passes.addPass(createRecogniseComposites());
  if (options.trains)
    passes.addPass(createDifferentiate({options.precision == Precision::fp16}));
  if (options.trains)
    passes.addPass(createReadPooledGradients());
  // After differentiating, whose gradients of sums it reads; nodes that name a forward Expand stay.
  passes.addPass(createReadRepeated());
  // Needs the sums of gradients; before 16 bits, in which the products would each be rounded.
  if (options.trains)
    passes.addPass(createJoinProducts());
  // After products that are joined, which look for the sums of uses.
  if (options.trains && !options.exact)
    passes.addPass(createJoinSums());
  const std::string precision(toString(options.precision));
  // After differentiating, so that the backward pass is narrowed like the forward pass; before
  // updates, which are in f32.
  passes.addPass(createNarrowValues({precision}));
  // Needs the sums of gradients that differentiate made.
  if (options.trains)
    passes.addPass(createAppendOptimizer({options.optimizer, options.noDecay, options.lrScale}));
  // Removes backward nodes that nobody reads, and what changes nothing, such as a mean's factor of
  // one. Before phases: what is kept in memory for them must not turn out to be what is read there.
  passes.addPass(mlir::createCanonicalizerPass());
  // Needs every node that will ever run per microbatch or per update.
  passes.addPass(createLabelPhases());
  // Equal nodes become one here and never later: units hide their nodes, and a read that serves two
  // units must not become one that serves two stages.
  passes.addPass(mlir::createCSEPass());
  // Before units, which hold constants only as numbers of a kernel; after canonicalization, so that
  // what nobody reads is gone.
  passes.addPass(createPlaceConstants());
  // Before kernels, which belong to units; before the cut, so that no cut changes a kernel.
  passes.addPass(createFormUnits(
      {options.exact, options.threads, options.vectorWidth, options.device, precision}));
  // Needs whole loops; before kernels, which their loops choose together.
  passes.addPass(createFuseParts(
      {options.exact, options.threads, options.vectorWidth, options.device, precision}));
  if (options.device == "cuda")
    passes.addPass(createFuseNormalisations());
  passes.addPass(createChooseKernels(
      {options.exact, options.threads, options.vectorWidth, options.device, precision}));
  // Needs the kernels, which say what they can be told of rows.
  passes.addPass(createPadRows());
  // Last: reorders and padding cost time too.
  passes.addPass(createEstimateCost(
      {options.device, options.threads, options.profile, options.microbatchSize}));
}

void buildCutPipeline(mlir::OpPassManager &passes, std::shared_ptr<const Plan> plan) {
  // The plan was made for this very graph: nothing between has changed a unit.
  passes.addPass(createVerifyLevel({"graph"}));
  passes.addPass(createAssignStages(plan));
  // Needs the stages; leaves no trained weight to several of them in asynchronous training.
  passes.addPass(createSendTiedWeights(plan));
  // Needs the homes of weights, where one stage sums for all; before updates are copied.
  passes.addPass(createDivideSums(plan));
  // Needs the stages; before cuts, since what updates a weight reads nothing of another stage.
  passes.addPass(createHoldTiedWeights(plan));
  // Units of several stages are planned apart: each would have to be sent what they have in common.
  passes.addPass(createMergeUnits());
  // Needs the stage of every producer and reader.
  passes.addPass(createInsertCuts());
}

void buildStagedPipeline(mlir::OpPassManager &passes, std::shared_ptr<const Plan> plan) {
  passes.addPass(createVerifyLevel({"cut"}));
  // Turns cuts into inboxes and outboxes, after which nothing knows of other stages.
  passes.addPass(createOutlinePrograms(plan));
  // Before the backward pass is divided: what its second half reads of the recomputed values is
  // then kept by the first like anything else.
  passes.addPass(createRecompute(plan));
  // Needs whole tasks: what a sent gradient is made of is seen within a stage only.
  passes.addPass(createSplitBackward(plan));
  // Both need the tasks that there will be; before schedules, which bring gradients together in the
  // order in which they are made.
  if (plan && plan->device == "cuda" && !plan->exact)
    passes.addPass(createFuseProducts());
  if (plan && plan->device == "cuda")
    passes.addPass(createFuseRows());
  // Takes what those have left.
  passes.addPass(createFuseLoops());
}

void buildScheduledPipeline(mlir::OpPassManager &passes, std::shared_ptr<const Plan> plan) {
  passes.addPass(createVerifyLevel({"staged"}));
  passes.addPass(createBuildSchedule(plan));
  // Both need rows: how many versions live, and when a value is there to be sent.
  passes.addPass(createVersionWeights());
  passes.addPass(createPlaceTransfers());
  // One kernel runs all updates of a task where the last of them stands: before homes, which may
  // give what one update reads to the next one.
  if (plan->device == "cuda")
    passes.addPass(createGatherUpdates());
  // After versions and transfers, which decide how long a buffer lives and in how many copies.
  passes.addPass(createAssignHomes());
  passes.addPass(createPlanMemory());
  // Needs final rows and final places: it replays them.
  passes.addPass(createVerifySchedule());
  // Last, since nothing may be added that has no name.
  passes.addPass(createNameValues());
  passes.addPass(createVerifyLevel({"scheduled"}));
}

} // namespace pdc
