#pragma once

#include "runtime/Arena.h"
#include "runtime/Program.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pdc::runtime {

class Inputs;

/// The first inputs of the next step, which the host reads and copies to a device while that still
/// works on the step before: it would wait for them otherwise. Random numbers are not among them,
/// since they know their step.
class NextInputs {
public:
  /// Of synchronous schedules; there are none on the CPU.
  NextInputs(const Program &program, const Arena &arena);

  /// Those behind a run of so many microbatches.
  void read(Inputs &inputs, int64_t microbatches);
  /// Puts an input there; false where it has not been read.
  bool put(const Inputs &inputs, const Memory &memory, int64_t microbatch, std::byte *to);

private:
  struct Entry {
    const Memory *memory;
    int64_t microbatch;             ///< the first of each step that this rank runs
    const Inputs *inputs = nullptr; ///< it was read of; null: it was not
    int64_t position = 0;
  };
  void addStage(const Program &program, const StageInfo &stage);

  const Arena &arena;
  std::vector<Entry> entries; ///< by place
};

} // namespace pdc::runtime
