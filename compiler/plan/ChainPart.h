#pragma once

#include "compiler/plan/Cut.h"
#include "compiler/plan/Partition.h"

#include <limits>

namespace pdc {

constexpr double kDoesNotFit = std::numeric_limits<double>::infinity();

/// What crosses one end of a part: bytes and messages, activations and gradients.
struct Crossing {
  int64_t valueBytes = 0, gradientBytes = 0, messages = 0;

  /// Of one of the two kinds of bytes; a count of -1 takes the value back.
  void add(int64_t Crossing::*kind, const PlanValue &value, int count = 1) {
    this->*kind += count * value.bytes;
    messages += count;
  }
  double seconds(const Link &link) const {
    auto all = static_cast<double>(valueBytes + gradientBytes);
    double transfer = link.bytesPerSecond > 0 ? all / link.bytesPerSecond : 0;
    // Of what crosses one end, about half comes and half goes.
    double own = (link.handOverSeconds(all) + link.takeSeconds(all)) / 2;
    return transfer + own + static_cast<double>(messages) * link.latencySeconds;
  }
};

/// The part of the units from `first` to a fixed end, grown towards the front one unit at a time.
class ChainPart {
public:
  /// One of so many stages.
  ChainPart(const PlanGraph &graph, int stages);

  void startAt(int end); ///< empty, in front of that unit
  void grow();           ///< by the unit in front of it

  double compute = 0;      ///< seconds per microbatch
  double forward = 0;      ///< of them in the forward pass
  double accumulation = 0; ///< of a microbatch that is not its update's first, beside `compute`
  double update = 0;       ///< seconds per update
  int64_t gradientBytes = 0;
  Crossing in, out;

  double seconds(const Link &before, const Link &behind) const {
    return compute + in.seconds(before) + out.seconds(behind);
  }
  int start() const { return first; }
  int end() const { return last; }
  StageMemory bytes() const {
    CrossingBytes crossing = sent;
    crossing.values = in.valueBytes + out.valueBytes;
    crossing.gradients = in.gradientBytes + out.gradientBytes;
    return memory.with(crossing);
  }
  /// Whatever the schedule; no part that holds this one has less.
  int64_t leastBytes() const {
    const StageMemory own = memory.with({});
    const StageDepth apart{.split = true};
    return std::min(own.total({}, true), own.total(apart, true)) - gatheredBytes;
  }

private:
  /// Numbers of values, or of what several units read, by unit.
  using ByUnit = std::vector<std::vector<size_t>>;

  static void collect(std::span<const PlanValue> values, ByUnit &made, ByUnit &read);
  void growValues(int unit);
  void growGradients(int unit);
  void growTied(int unit);
  void growSharedReads(int unit);

  TiedUses usesOf(const TiedWeight &weight, int64_t units, bool hasFirst) const;

  const PlanGraph &graph;
  int64_t otherStages;
  ByUnit made, read, madeGradients, readGradients;
  ByUnit tied, sharedReads;
  std::vector<bool> comesIn;        ///< by value
  std::vector<size_t> readers;      ///< by gradient: readers in the part
  std::vector<int64_t> tiedUnits;   ///< by tied weight: its units in the part
  std::vector<bool> holds;          ///< by shared read
  CrossingBytes sent;               ///< what it keeps of what it sends
  int64_t gatheredBytes = 0; ///< of sums together: a larger part may gather fewer of others
  int first = 0, last = 0;
  MemorySum memory;
};

/// What the schedule asks of a stage, by its number.
struct StageTerms {
  Link before, behind;
  double replicas = 1, microbatches = 1;
  StageDepth depth;
  int64_t memoryBytes = 0;
  bool mustRecompute = false, mayRecompute = true;
  std::vector<int> ranks;
  Link ring;    ///< of the sum over replicas
  int kind = 0; ///< the same for stages that a part costs the same, memory apart
};

std::vector<StageTerms> termsOf(const ChainRequest &request);

/// Seconds of a stage apart from recomputation.
double secondsWithout(const ChainPart &part, const StageTerms &own);

/// The same with what its memory asks for; infinite where it does not fit.
inline double secondsWith(const ChainPart &part, const StageMemory &memory, const StageTerms &own,
                          double withoutRecomputation) {
  auto fits = [&](bool recompute) {
    return !own.memoryBytes || memory.total(own.depth, recompute) <= own.memoryBytes;
  };
  if (!own.mustRecompute && fits(false))
    return withoutRecomputation;
  return own.mayRecompute && fits(true) ? withoutRecomputation + part.forward / own.replicas
                                        : kDoesNotFit;
}

} // namespace pdc
