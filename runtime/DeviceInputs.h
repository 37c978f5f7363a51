#pragma once

#include "runtime/Arena.h"
#include "runtime/Program.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pdc::runtime {

class Inputs;

/// Inputs that a device copies from the host beside its queue, to memory of their own, from where
/// the queue takes them: it computes meanwhile. Those of a microbatch come while it computes the
/// one before; the first ones of the next step, which the host reads while the device still works
/// on the step before, would otherwise be waited for. Random numbers are not among them: they are
/// few, and know their step.
class DeviceInputs {
public:
  /// None on the CPU.
  DeviceInputs(const Program &program, const Arena &arena);

  /// Reads those of the next step, behind a run of so many microbatches. Of synchronous schedules:
  /// others do not wait between steps.
  void readNext(Inputs &inputs, int64_t microbatches);
  /// Puts an input there; false where nothing is reserved for it, or where it is so small that it
  /// may as well be copied in the queue, and has not been read.
  bool put(Inputs &inputs, const Memory &memory, int64_t microbatch, std::byte *to);

private:
  struct Entry {
    const Memory *memory;
    int64_t microbatch;             ///< the first of each step that this rank runs
    const Inputs *inputs = nullptr; ///< what lies there was read of; null: nothing does
    int64_t position = 0;
  };
  void addStage(const Program &program, const StageInfo &stage);

  const Arena &arena;
  const bool readsNext;
  std::vector<Entry> entries; ///< by place
};

} // namespace pdc::runtime
