#pragma once

#include "compiler/devices/Device.h"
#include "runtime/kernels/Library.h"

#include <optional>

namespace pdc {

/// What oneDNN would run for a description, asked on this machine.
struct LibraryAnswer {
  runtime::Fallback speed; ///< none: a fast implementation
  int64_t scratchBytes;
};

/// Whether this machine's library answers as the target's would: it has the target's instructions.
bool canAskLibrary(const DeviceOptions &options);

/// The answer for a primitive description made under `threads` threads; nothing where the library
/// has no implementation.
template <class Make> std::optional<LibraryAnswer> askLibrary(int threads, Make make) {
  runtime::ThreadScope scope({threads, 0});
  try {
    auto description = make();
    return LibraryAnswer{runtime::fallbackOf(description.impl_info_str()),
                         static_cast<int64_t>(description.scratchpad_desc().get_size())};
  } catch (const dnnl::error &) {
    return std::nullopt;
  }
}

/// What a kernel's workspace holds of a packed operand, and what packing it takes itself; none
/// where the operand stays as it is.
inline int64_t packingBytes(const dnnl::memory::desc &plain, const dnnl::memory::desc &packed) {
  if (plain.data.ndims == 0 || packed == plain)
    return 0;
  return runtime::alignedBytes(static_cast<int64_t>(packed.get_size())) + 65536;
}

} // namespace pdc
