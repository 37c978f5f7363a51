#include "runtime/DeviceInputs.h"

#include "runtime/Error.h"
#include "runtime/Executor.h"

#include <algorithm>
#include <string_view>

namespace pdc::runtime {

/// Copies of less take some microseconds wherever they run.
constexpr int64_t kLargeBytes = int64_t(1) << 20;

DeviceInputs::DeviceInputs(const Program &program, const Arena &arena)
    : arena(arena), readsNext(!program.asynchronous) {
  if (arena.isRemote())
    for (const StageInfo &stage : program.stages)
      addStage(program, stage);
  for (size_t place = 0; place < entries.size(); ++place)
    arena.reserveAhead(place, entries[place].memory->bytes);
}

void DeviceInputs::addStage(const Program &program, const StageInfo &stage) {
  auto isForward = [&](const Step &row) {
    return row.kind == StepKind::run && row.phase == Phase::forward && row.stage == stage.id;
  };
  const auto first = std::ranges::find_if(program.training.step, isForward);
  if (readsNext && first == program.training.step.end())
    return;
  for (const Memory &memory : program.memories)
    if (memory.role == Role::input && memory.place.region == stage.slotRegion &&
        !std::string_view(memory.name).starts_with("pdc.") &&
        (readsNext || memory.bytes >= kLargeBytes))
      entries.push_back({&memory, readsNext ? first->microbatch : 0});
}

/// What cannot be read is an error where it is needed; what fails otherwise is one now.
void DeviceInputs::readNext(Inputs &inputs, int64_t microbatches) {
  if (!readsNext)
    return;
  for (size_t place = 0; place < entries.size(); ++place) {
    Entry &entry = entries[place];
    const int64_t microbatch = microbatches + entry.microbatch;
    entry.inputs = nullptr;
    auto fill = [&](std::byte *to) {
      try {
        inputs.fill(*entry.memory, to, microbatch);
        return true;
      } catch (const Error &) {
        return false;
      }
    };
    if (arena.putAhead(place, fill))
      entry.inputs = &inputs;
    entry.position = inputs.position(microbatch);
  }
}

bool DeviceInputs::put(Inputs &inputs, const Memory &memory, int64_t microbatch, std::byte *to) {
  const auto entry = std::ranges::find(entries, &memory, &Entry::memory);
  if (entry == entries.end())
    return false;
  const auto place = size_t(entry - entries.begin());
  if (entry->inputs != &inputs || entry->position != inputs.position(microbatch)) {
    if (memory.bytes < kLargeBytes)
      return false;
    entry->inputs = nullptr;
    auto fill = [&](std::byte *staged) {
      inputs.fill(memory, staged, microbatch);
      return true;
    };
    if (!arena.putAhead(place, fill))
      return false;
  }
  arena.takeAhead(place, to);
  return true;
}

} // namespace pdc::runtime
