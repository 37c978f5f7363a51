#pragma once

#include <sched.h>

#include <algorithm>
#include <thread>

namespace pdc::runtime {

/// The cores of this machine that the calling thread may use; at least one.
inline cpu_set_t usableCoreSet() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) > 0)
    return cores;
  // A machine with more cores than a set holds.
  CPU_ZERO(&cores);
  for (unsigned core = 0; core < std::max(1u, std::thread::hardware_concurrency()); ++core)
    CPU_SET(core, &cores);
  return cores;
}

inline int usableCores() {
  cpu_set_t cores = usableCoreSet();
  return CPU_COUNT(&cores);
}

} // namespace pdc::runtime
