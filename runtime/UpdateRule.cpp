#include "runtime/Executor.h"

#include "runtime/Error.h"

#include <algorithm>
#include <utility>

/// Which microbatches an update sums, which step it is, and which weights a microbatch reads.
namespace pdc::runtime {

/// Asynchronous: a step is `program.microbatches` of them, and an update sums a step's or, where a
/// step is one microbatch, one of each replica.
int64_t Executor::microbatchesPerUpdate(const Stage &stage) const {
  return std::max(program.microbatches, int64_t(stage.info->ranks.size()));
}

int64_t Executor::stepsPerUpdate(const Stage &stage) const {
  return program.asynchronous ? microbatchesPerUpdate(stage) / program.microbatches : 1;
}

void Executor::findLearningRates() {
  for (const Memory &memory : program.memories) {
    const std::string_view name = memory.name;
    const bool isScaled = name.starts_with("pdc.learning_rate.times_");
    if (memory.role == Role::input && (isScaled || name == "pdc.learning_rate"))
      learningRates.push_back(
          {reinterpret_cast<float *>(arena.at(memory.place)), isScaled ? memory.fill : 1});
  }
}

void Executor::goOnAfter(int64_t updates) {
  for (Stage &stage : stages)
    stage.made = updates;
}

int64_t Executor::summed(const Stage &stage, int64_t last) const {
  int64_t most = microbatchesPerUpdate(stage);
  return program.asynchronous ? std::clamp<int64_t>(limit - (last - most + 1), 0, most) : limit;
}

/// Replicas with a microbatch in the group of an update: all of them, but at the end of an epoch.
int Executor::participants(const Stage &stage, int64_t last) const {
  return int(std::min(summed(stage, last), int64_t(stage.info->ranks.size())));
}

int64_t Executor::stepOf(const Stage &stage, int64_t last) const {
  if (!program.asynchronous)
    return step;
  int64_t end = last + 1 - microbatchesPerUpdate(stage) + summed(stage, last);
  return step + (end - 1) / program.microbatches;
}

int64_t Executor::lastOfUpdate(const Stage &stage, int64_t microbatch) const {
  int64_t each = microbatchesPerUpdate(stage);
  return microbatch / each * each + each - 1;
}

/// A minibatch may run its microbatches in any order; asynchronous rows, ascending, end many sums.
/// Those of several stages say the order of their sums where they wait for them.
bool Executor::endsSums(const Stage &stage, int64_t microbatch) const {
  auto replicas = int64_t(stage.info->ranks.size());
  if (replicas == 1)
    return false;
  if (!program.asynchronous)
    return stage.ended == (limit - stage.replica + replicas - 1) / replicas;
  int64_t next = microbatch + replicas;
  return stages.size() == 1 && (next >= limit || next > lastOfUpdate(stage, microbatch));
}

bool Executor::maySumEarly(const Stage &stage) const {
  if (!arena.isRemote())
    return true;
  for (const Step &row : rowsAhead) {
    if (row.kind == StepKind::reduceGradients && row.stage == stage.info->id)
      return true;
    const bool crosses = row.kind == StepKind::send || row.kind == StepKind::receive;
    if (crosses && row.microbatch + firstMicrobatch < limit)
      return false;
  }
  return false;
}

bool Executor::hasBegun(const Stage &stage, int64_t last) const { return summed(stage, last) > 0; }

bool Executor::startsSums(Stage &stage, Phase phase, int64_t microbatch) {
  bool first = std::exchange(stage.starts[size_t(phase)], false);
  int64_t position = microbatch % microbatchesPerUpdate(stage);
  return first || (program.asynchronous && position < int64_t(stage.info->ranks.size()));
}

/// The owner of the loss tells rank 0: of each microbatch its own step, or of all that a step sums.
/// A device is waited for here in any case, so that the sum is looked at behind the update: what it
/// has spoilt is never saved.
void Executor::reportLoss(const Stage &stage, int64_t last) {
  if (!program.asynchronous || !loss || &stage != &stages.back())
    return;
  int present = participants(stage, last);
  if (stage.replica >= present)
    return;
  bool shared = stepsPerUpdate(stage) == 1;
  int64_t own = last - int64_t(stage.info->ranks.size()) + 1 + stage.replica;
  const int64_t number = shared ? stepOf(stage, last) : step + own;
  const auto [sum, weight] = arena.load(std::array<const float *, 2>{loss, lossWeight});
  if (arena.isRemote()) {
    const int64_t begin = std::max<int64_t>(0, last - microbatchesPerUpdate(stage) + 1);
    requireFiniteSum(sum, number, shared ? begin : own, shared ? std::min(last, limit - 1) : own);
  }
  control.report(
      {number, shared ? stage.replica : 0, shared ? present : 1, sum, lossWeight ? weight : 1});
}

std::byte *Executor::newest(const Memory &memory) const {
  for (const Stage &stage : stages)
    if (memory.versioned && memory.place.region == stage.info->versionRegion)
      return arena.at(memory.place, stage.version);
  return arena.at(memory.place);
}

/// The ring copy of the version that the update rule gives to a microbatch. Every run begins
/// drained: the versions that it reads are counted from there.
int Executor::versionRead(const Stage &stage, int64_t microbatch) const {
  if (program.versionLag < 0 || stage.info->versionRegion < 0)
    return stage.version;
  int64_t copies = program.regions[stage.info->versionRegion].copies;
  int64_t updates = microbatch / microbatchesPerUpdate(stage);
  int64_t age = stage.updates - std::max<int64_t>(0, updates - program.versionLag);
  if (age < 0 || age >= copies)
    throw Error("stage ", stage.info->id, ": microbatch ", microbatch, " reads the weights of ",
                age, " updates ago, and the ", copies,
                " newest versions are kept; the schedule needs more versions");
  return int((stage.version - age + copies) % copies);
}

} // namespace pdc::runtime
