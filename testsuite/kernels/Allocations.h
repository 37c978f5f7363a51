#pragma once

#include <cstdint>

namespace pdc {

/// Calls of operator new, which programs that link Allocations.cpp have replaced.
struct Allocations {
  int64_t ours = 0;
  int64_t library = 0; ///< made by oneDNN while it executes a primitive
};

/// Those of all threads since the program began.
Allocations allocationsSoFar();

/// Those of one call.
template <class Call> Allocations allocationsOf(Call call) {
  const Allocations before = allocationsSoFar();
  call();
  const Allocations after = allocationsSoFar();
  return {after.ours - before.ours, after.library - before.library};
}

} // namespace pdc
