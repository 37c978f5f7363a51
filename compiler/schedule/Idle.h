#pragma once

namespace pdc {

/// A pipeline whose ranks have equal work.
struct EvenPipeline {
  double ranks = 1, chunks = 1; ///< stages per rank
  double microbatches = 1;      ///< per update
  double forward = 0;           ///< seconds of a microbatch on a rank, all of its stages together
  double backward = 0;          ///< all of it
  double weightGradients = 0;   ///< the part of `backward` that no other rank waits for
};

/// Seconds of an update in which each rank waits for others: while the pipeline fills and empties,
/// p - 1 parts F + B of a microbatch (GPipe, section 2.3). Of several stages a rank's first begins,
/// and its last ends, as many times sooner (Megatron-LM: Narayanan et al. 2021, section 2.2).
double idleOfFlush(const EvenPipeline &pipeline);

// Weight gradients wait for nobody, and those of microbatches before are made meanwhile; of few
// microbatches there are few (Zero Bubble Pipeline Parallelism, section 2). Updates wait for all
// ranks, so that a rank still waits for the way of the first microbatch, or of the last.
double idleOfZeroBubble(const EvenPipeline &pipeline); ///< zb-h1, and zb-v of two chunks
double idleOfZeroBubbleH2(const EvenPipeline &pipeline);

} // namespace pdc
