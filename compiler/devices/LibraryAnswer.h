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

} // namespace pdc
