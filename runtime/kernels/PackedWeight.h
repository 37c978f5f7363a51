#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/LibraryCall.h"

#include <cstddef>

namespace pdc::runtime {

/// A copy between a row-major weight and the library's own packing, kept in workspace. Made without
/// descriptions it does nothing.
class PackedWeight {
public:
  PackedWeight() = default;
  enum class Direction { intoLibrary, outOfLibrary };
  /// Where `plain` is empty or the same as `packed`, nothing is copied.
  PackedWeight(const Device &device, const char *unit, const LibraryLayout &plain,
               const LibraryLayout &packed, Direction direction);

  /// The weight as the library wants it: packed at `scratch`, which moves on behind it, or `weight`
  /// itself.
  const void *pack(const void *weight, std::byte *&scratch);
  void copy(const void *from, void *to, void *scratch);
  int64_t packedBytes() const { return bytes; }
  explicit operator bool() const { return static_cast<bool>(call); }

private:
  LibraryCall call;
  int64_t bytes = 0;
};

} // namespace pdc::runtime
