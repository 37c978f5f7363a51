#pragma once

#include "compiler/onnx/Model.h"
#include "tools/pdc/Options.h"

namespace pdc {

/// Per update. More would be planned for minutes, and far fewer fill any pipeline.
constexpr int64_t kMostMicrobatches = 8192;

/// How the samples of one update are cut.
struct Batch {
  int64_t microbatchSize = 0;
  int64_t microbatches = 1;  ///< per replica of the first stage
  int64_t inputReplicas = 1; ///< of the first stage

  int64_t minibatch() const { return microbatchSize * microbatches * inputReplicas; }
  bool operator==(const Batch &) const = default;
};

/// Whether the planner may give stages replicas; `--exact` promises one order of sums, a file of
/// rows says its ranks, and a list of stages that recompute numbers them.
bool opensReplicas(const Options &options);

/// Whether the planner may choose replicas of the whole model: who names a schedule asks for a
/// pipeline.
bool opensDataParallelism(const Options &options);

/// The ways that the model and the command line leave open, for the planner to choose from; exactly
/// one when they are all given. A fixed first dimension is the microbatch size; a named one is
/// bound to minibatch / (microbatches x replicas of the first stage). Where updates do
/// not sum microbatches, each is its own update, of one microbatch of each replica of the first
/// stage. Where their number is given and schedule and replicas are open, data parallelism over the
/// same microbatches is one of them: BatchNormalization's statistics are those of a microbatch.
/// Throws Error with an example when the sizes are missing or do not fit.
/// PipeDream's cost models choose the replicas: each batch is then a size of microbatches, and the
/// plan says how many an update has.
std::vector<Batch> openBatches(const Model &model, const Options &options, bool sums);

/// The batches of one microbatch size, whose graph is the same, side by side: first those with
/// about a microbatch per worker, for which data parallelism and pipelines do well, so that bounds
/// pass others over once there is a good plan.
std::vector<std::vector<Batch>> bySize(const std::vector<Batch> &batches, int workers);

/// Whether of a graph of so many units only the sizes are planned that promise most: a large graph
/// takes seconds to make and to plan. Not so under PipeDream's cost models and where updates do not
/// sum microbatches: a size stands for the replicas of the first stage there.
bool plansBestSizes(const Options &options, bool sums, size_t units);

/// Whether a size is farther from the best one than another that was planned and is slower. Smaller
/// microbatches shorten the bubble and slow down what devices compute, larger ones do the reverse:
/// once that has cost more than it brings it does so all the more for still smaller ones, or still
/// larger ones.
bool liesBeyondSlower(int64_t samples, int64_t best, const std::vector<int64_t> &planned);

/// Those of them whose microbatches are nearest to so many samples, for which costs are known; and
/// data parallelism, if it is open and replicas could share none of them equally. All of them where
/// updates do not sum microbatches, whose size stands for the replicas of the first stage there.
std::vector<Batch> batchesNear(int64_t samples, const std::vector<Batch> &open, const Model &model,
                               const Options &options, bool sums);

} // namespace pdc
