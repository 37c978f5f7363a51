#include "runtime/NextInputs.h"

#include "runtime/Error.h"
#include "runtime/Executor.h"

#include <algorithm>
#include <string_view>

namespace pdc::runtime {

NextInputs::NextInputs(const Program &program, const Arena &arena) : arena(arena) {
  if (arena.isRemote() && !program.asynchronous)
    for (const StageInfo &stage : program.stages)
      addStage(program, stage);
  for (size_t place = 0; place < entries.size(); ++place)
    arena.reserveAhead(place, entries[place].memory->bytes);
}

void NextInputs::addStage(const Program &program, const StageInfo &stage) {
  const auto first = std::ranges::find_if(program.training.step, [&](const Step &row) {
    return row.kind == StepKind::run && row.phase == Phase::forward && row.stage == stage.id;
  });
  if (first == program.training.step.end())
    return;
  for (const Memory &memory : program.memories)
    if (memory.role == Role::input && memory.place.region == stage.slotRegion &&
        !std::string_view(memory.name).starts_with("pdc."))
      entries.push_back({&memory, first->microbatch});
}

/// What cannot be read is an error where it is needed; what fails otherwise is one now.
void NextInputs::read(Inputs &inputs, int64_t microbatches) {
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

bool NextInputs::put(const Inputs &inputs, const Memory &memory, int64_t microbatch,
                     std::byte *to) {
  for (size_t place = 0; place < entries.size(); ++place) {
    Entry &entry = entries[place];
    if (entry.memory != &memory || entry.inputs != &inputs ||
        entry.position != inputs.position(microbatch))
      continue;
    arena.takeAhead(place, to);
    return true;
  }
  return false;
}

} // namespace pdc::runtime
