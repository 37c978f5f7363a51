#pragma once

#include <cstdint>

namespace pdc::runtime {

/// Bytes that a process has in memory.
struct MemoryInUse {
  /// What it has for itself: all but pages of files that it only reads, which are its own code and
  /// that of libraries. The ranks of a host share those, the system drops and reads them as it
  /// likes, and how many are there depends on the processor and on chance of addresses.
  int64_t own = 0;
  /// The most that it has had of that, if it has never had fewer pages of files than it has now.
  int64_t highestOwn = 0;
  /// The most that it has had in all.
  int64_t highest = 0;
};

/// Of this process. A system that does not tell pages apart counts all of them as its own.
MemoryInUse memoryInUse();

} // namespace pdc::runtime
