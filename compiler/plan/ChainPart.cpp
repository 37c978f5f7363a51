#include "compiler/plan/ChainPart.h"

#include "compiler/plan/Bounds.h"

#include <algorithm>
#include <array>
#include <map>

namespace pdc {

ChainPart::ChainPart(const PlanGraph &graph, int stages)
    : graph(graph), otherStages(stages - 1), made(graph.units.size()), read(graph.units.size()),
      madeGradients(graph.units.size()), readGradients(graph.units.size()),
      tied(graph.units.size()), sharedReads(graph.units.size()) {
  for (size_t weight = 0; weight < graph.tied.size(); ++weight)
    for (int unit : graph.tied[weight].units)
      tied[unit].push_back(weight);
  for (size_t read = 0; read < graph.sharedReads.size(); ++read)
    for (int unit : graph.sharedReads[read].units)
      sharedReads[unit].push_back(read);
  collect(graph.values, made, read);
  collect(graph.gradients, madeGradients, readGradients);
}

void ChainPart::collect(std::span<const PlanValue> values, ByUnit &made, ByUnit &read) {
  for (size_t value = 0; value < values.size(); ++value) {
    made[values[value].producer].push_back(value);
    for (int consumer : values[value].consumers)
      read[consumer].push_back(value);
  }
}

void ChainPart::startAt(int end) {
  first = last = end;
  compute = forward = accumulation = update = 0;
  gradientBytes = gatheredBytes = 0;
  sent = {};
  in = out = {};
  memory = {};
  comesIn.assign(graph.values.size(), false);
  readers.assign(graph.gradients.size(), 0);
  tiedUnits.assign(graph.tied.size(), 0);
  holds.assign(graph.sharedReads.size(), false);
}

TiedUses ChainPart::usesOf(const TiedWeight &weight, int64_t units, bool hasFirst) const {
  const int64_t elsewhere = static_cast<int64_t>(weight.units.size()) - units;
  return {units, units > 0 ? std::min(elsewhere, otherStages) : 0, hasFirst};
}

/// The part grows towards the front: a weight's first unit comes last.
void ChainPart::growTied(int unit) {
  for (size_t number : tied[unit]) {
    const TiedWeight &weight = graph.tied[number];
    const TiedUses before = usesOf(weight, tiedUnits[number], false);
    const TiedUses after = usesOf(weight, ++tiedUnits[number], unit == weight.units.front());
    memory.subtract(tiedMemory(weight, before));
    memory.add(tiedMemory(weight, after));
    gradientBytes += uncountedSums(weight, after) - uncountedSums(weight, before);
    gatheredBytes += gatheredSums(weight, after) - gatheredSums(weight, before);
  }
}

/// What the part holds of one is counted by the unit's bytes once that is its first one.
void ChainPart::growSharedReads(int unit) {
  for (size_t number : sharedReads[unit]) {
    const SharedRead &read = graph.sharedReads[number];
    const bool counts = unit == read.units.front();
    if (holds[number] && counts)
      memory.subtract(heldOf(read));
    else if (!holds[number] && !counts)
      memory.add(heldOf(read));
    holds[number] = true;
  }
}

void ChainPart::grow() {
  int unit = --first;
  const PlanUnit &cost = graph.units[unit];
  compute += cost.forwardSeconds + cost.backwardInputSeconds + cost.backwardWeightSeconds;
  forward += cost.forwardSeconds;
  accumulation += accumulationSeconds(cost);
  update += cost.updateSeconds;
  gradientBytes += cost.gradientBytes;
  memory.add(cost);
  growTied(unit);
  growSharedReads(unit);
  growValues(unit);
  growGradients(unit);
}

void ChainPart::growValues(int unit) {
  for (size_t index : made[unit]) {
    const PlanValue &value = graph.values[index];
    if (comesIn[index])
      in.add(&Crossing::valueBytes, value, -1);
    comesIn[index] = false;
    if (std::ranges::any_of(value.consumers, [&](int reader) { return reader >= last; })) {
      out.add(&Crossing::valueBytes, value);
      sent.addSent(value, last);
    }
  }
  for (size_t index : read[unit]) {
    if (!comesIn[index])
      in.add(&Crossing::valueBytes, graph.values[index]);
    comesIn[index] = true;
  }
}

/// Gradients come in at the end of the part and leave it at its front.
void ChainPart::growGradients(int unit) {
  for (size_t index : madeGradients[unit])
    if (const PlanValue &gradient = graph.gradients[index]; !gradient.consumers.empty())
      in.add(&Crossing::gradientBytes, gradient);
  for (size_t index : readGradients[unit]) {
    const PlanValue &gradient = graph.gradients[index];
    const size_t known = readers[index]++;
    if (gradient.producer >= last) {
      if (known == 0)
        out.add(&Crossing::gradientBytes, gradient);
    } else if (known + 1 == gradient.consumers.size()) {
      in.add(&Crossing::gradientBytes, gradient, -1);
    }
  }
}

std::vector<StageTerms> termsOf(const ChainRequest &request) {
  std::vector<StageTerms> terms(request.stages);
  for (int stage = 0; stage < request.stages; ++stage) {
    StageTerms &own = terms[stage];
    own.ranks = request.ranksOfStage[stage];
    own.replicas = static_cast<double>(own.ranks.size());
    own.microbatches = static_cast<double>(request.microbatches(stage));
    own.depth = {request.versions(stage), request.slots(stage), request.split, stage > 0,
                 request.inputsBeside,    request.spreads};
    own.memoryBytes = request.memoryBytes(stage);
    own.mustRecompute = request.recompute.must(stage);
    own.mayRecompute = request.recompute.may(stage);
    if (stage > 0 && request.ranksOfStage[stage - 1] != own.ranks)
      own.before = terms[stage - 1].behind =
          linkBetweenStages(request.topology, request.ranksOfStage[stage - 1], own.ranks);
    own.ring = slowestOfRing(request.topology, own.ranks);
  }
  std::map<std::array<double, 12>, int> kinds;
  for (StageTerms &own : terms) {
    const Link &before = own.before, &behind = own.behind, &ring = own.ring;
    std::array<double, 12> key = {before.bytesPerSecond,
                                  before.latencySeconds,
                                  before.sendBytesPerSecond,
                                  before.receiveBytesPerSecond,
                                  behind.bytesPerSecond,
                                  behind.latencySeconds,
                                  behind.sendBytesPerSecond,
                                  behind.receiveBytesPerSecond,
                                  ring.bytesPerSecond,
                                  ring.latencySeconds,
                                  own.replicas,
                                  own.microbatches};
    own.kind = kinds.insert({key, static_cast<int>(kinds.size())}).first->second;
  }
  return terms;
}

double secondsWithout(const ChainPart &part, const StageTerms &own) {
  double sum = ringSeconds(own.ring, own.replicas, part.gradientBytes);
  const double added = std::max(0.0, 1 - own.replicas / own.microbatches) * part.accumulation;
  return (part.seconds(own.before, own.behind) + added) / own.replicas +
         (part.update + sum) / own.microbatches;
}

} // namespace pdc
