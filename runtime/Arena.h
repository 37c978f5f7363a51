#pragma once

#include "runtime/Program.h"

#include <cstddef>

namespace pdc::runtime {

/// The one allocation of a program: zeroed, aligned to a page, addressed by the compiler's places.
class Arena {
public:
  explicit Arena(const Program &program);
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  std::byte *region(int index, int64_t copy = 0) const {
    const Region &region = program.regions[index];
    return base + region.offset + copy * region.stride;
  }
  std::byte *at(Place place, int64_t copy = 0) const {
    return region(place.region, copy) + place.offset;
  }
  int64_t bytes() const { return program.arenaBytes; }

private:
  const Program &program;
  std::byte *base = nullptr;
};

/// Refuses a program that another version of the compiler wrote, or whose tables point outside
/// their tables or its arena.
void check(const Program &program);

int64_t elementBytes(ElementType type);

} // namespace pdc::runtime
