#pragma once

#include "compiler/plan/PlanMemory.h"

namespace pdc {

/// What the memory of other ways to train follows from.
struct BaselineParts {
  CutMemory cut;     ///< of the plan's own stages
  StageMemory whole; ///< of all units as one stage
  RecomputeChoice recompute;
  int64_t memoryBytes = 0; ///< per device; 0: what the devices have
};

/// Other ways to train on the plan's devices: one device, data parallelism, the plan's stages
/// without pipelining, and GPipe on them. One that would not fit recomputes where it may. Expects
/// the plan's stages and its seconds for the first three.
std::vector<Baseline> findBaselines(const Plan &plan, const BaselineParts &parts);

/// The minibatch nearest to the plan's that replicas of the whole model on all workers can share
/// equally: the plan's microbatches where there is one for each, else its samples.
int64_t nearestSharedMinibatch(const Plan &plan);

/// Data parallelism on the same workers: each takes its share of the minibatch, gradients are
/// summed by a ring all-reduce over the slowest link.
double dataParallelSeconds(const PlanGraph &graph, const Topology &topology, int threads,
                           int64_t microbatches, bool asynchronous);

/// The plan's stages without pipelining: one minibatch of `work` seconds on the way at a time, and
/// what crosses from each stage to others, there and back.
double modelParallelSeconds(const Plan &plan, double work);

} // namespace pdc
