#include "runtime/kernels/PackedWeight.h"

namespace pdc::runtime {

using Descriptor = dnnl::memory::desc;

PackedWeight::PackedWeight(const Device &device, const std::string &unit, const Descriptor &plain,
                           const Descriptor &packed, Direction direction) {
  if (plain.data.ndims == 0 || plain == packed)
    return;
  bytes = alignedBytes(static_cast<int64_t>(packed.get_size()));
  const Descriptor &from = direction == Direction::intoLibrary ? plain : packed;
  const Descriptor &to = direction == Direction::intoLibrary ? packed : plain;
  call = LibraryCall::create<dnnl::reorder>(unit, device, Fallback::reference, [&] {
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
