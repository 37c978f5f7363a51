#include "runtime/kernels/PackedWeight.h"

#include "runtime/kernels/Library.h"

#include <utility>

namespace pdc::runtime {

PackedWeight::PackedWeight(const Device &device, const char *unit, const LibraryLayout &plainLayout,
                           const LibraryLayout &packedLayout, Direction direction) {
  const dnnl::memory::desc &plain = plainLayout.description, &packed = packedLayout.description;
  if (plain.data.ndims == 0 || plain == packed)
    return;
  bytes = alignedBytes(static_cast<int64_t>(packed.get_size()));
  const bool inwards = direction == Direction::intoLibrary;
  const dnnl::memory::desc &from = inwards ? plain : packed, &to = inwards ? packed : plain;
  call = makeLibraryCall<dnnl::reorder>(unit, device, Fallback::reference, [&] {
    return dnnl::reorder::primitive_desc(libraryEngine(), from, libraryEngine(), to,
                                         libraryAttributes());
  });
  call.addMemory(DNNL_ARG_FROM, from);
  call.addMemory(DNNL_ARG_TO, to);
}

const void *PackedWeight::pack(const void *weight, std::byte *&scratch) {
  if (!call)
    return weight;
  void *packed = std::exchange(scratch, scratch + bytes);
  copy(weight, packed, scratch);
  return packed;
}

void PackedWeight::copy(const void *from, void *to, void *scratch) {
  call.setData(DNNL_ARG_FROM, from);
  call.setData(DNNL_ARG_TO, to);
  call.execute(scratch);
}

} // namespace pdc::runtime
