#pragma once

#include "compiler/plan/Plan.h"

#include <map>
#include <vector>

namespace pdc {

/// On the host, in whole pages, which a process takes memory in: by how much the peaks of equal
/// runs lie above their mean, and larger tensors' copies and messages above those of small ones.
int64_t spreadBytes(int64_t arena);

/// What a schedule and its device ask of a stage's memory.
struct StageDepth {
  int64_t versions = 1, slots = 1;
  bool split = false; ///< input and weight gradients run apart
  bool sendsGradients = true;
  bool inputsBeside = false; ///< those of one microbatch lie beside the slots, too
  bool spreads = false;      ///< from run to run (spreadBytes)
};

/// Bytes of a stage apart from what depends on the schedule.
struct StageMemory {
  int64_t weights = 0; ///< one version
  int64_t fixed = 0;   ///< gradients, optimizer state, evaluation
  int64_t slot = 0;    ///< per microbatch in flight: inputs, inboxes and outboxes
  int64_t stash = 0;   ///< activations kept per microbatch in flight, or of one where recomputed
  int64_t inputs = 0;  ///< of a slot, what is read of the data
  int64_t workspace = 0;
  int64_t temporaries = 0, evaluationTemporaries = 0; ///< of a task
  /// Where input gradients, which are sent, run apart from weight gradients: of a task; per
  /// microbatch what the former leave for the latter; of the activations those that only the former
  /// read; and by how much a microbatch has more, at most, than before its backward pass.
  int64_t splitTemporaries = 0, halfway = 0, inputStash = 0, growth = 0;

  int64_t total(const StageDepth &depth, bool recompute) const;
  /// Of these, what tasks have one after the other: those of all stages of a rank share it.
  int64_t scratch(const StageDepth &depth, bool recompute) const;
};

/// Evaluation microbatches that a stage holds at once: one is computed while another is sent.
constexpr int evaluationCopies = 2;

/// How a stage uses a tied weight.
struct TiedUses {
  int64_t units = 0;       ///< of the stage
  int64_t otherStages = 0; ///< that use it, at most
  bool hasFirst = false;   ///< of all its units
};

/// By stage that uses it.
std::map<int, TiedUses> usesByStage(const TiedWeight &tied, const std::vector<int> &stageOfUnit);

/// What a stage holds of a tied weight beside what the bytes of its units count.
StageMemory tiedMemory(const TiedWeight &tied, const TiedUses &uses);

/// Bytes of the sums of other stages that a stage gathers, and of their sum.
int64_t gatheredSums(const TiedWeight &tied, const TiedUses &uses);

/// Bytes of gradients that a stage sums of a tied weight beside what its units count.
int64_t uncountedSums(const TiedWeight &tied, const TiedUses &uses);

/// What a stage holds of memory that one of its units reads and another's bytes count.
StageMemory heldOf(const SharedRead &read);

/// What stages hold of tied weights and of shared reads beside what the bytes of their units count.
std::vector<StageMemory> sharedMemory(const PlanGraph &graph, const std::vector<int> &stageOfUnit);

/// Bytes that cross the ends of a stage in a microbatch.
struct CrossingBytes {
  int64_t values = 0, gradients = 0;
  int64_t stashed = 0; ///< of the values that it sends, those that it keeps
  int64_t forInputs = 0, freed = 0; ///< of these: of its `inputStash`, and of what its units free

  /// The producer's stage; it has the units before `end`.
  void addSent(const PlanValue &value, int end);
};

/// Sums StageMemory over the units of a stage; what crosses is added by the caller.
class MemorySum {
public:
  /// The unit in front of those added before. `sends`: its input gradients go to another stage
  /// before its weight gradients run.
  void add(const PlanUnit &unit, bool sends = true);
  /// Weights and what is fixed.
  void add(const StageMemory &held);
  void subtract(const StageMemory &held);
  /// With what crosses its ends in a microbatch; evaluation has no gradients. What is kept of what
  /// is sent lies where it is sent from.
  StageMemory with(const CrossingBytes &crossing) const;

private:
  StageMemory sum;
  int64_t freed = 0;
};

} // namespace pdc
