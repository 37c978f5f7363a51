#pragma once

#include <cstdint>
#include <span>

namespace pdc::runtime {

/// How an NC... tensor lies in memory: [batch][channel block][pixel][lane].
struct ChannelLayout {
  int64_t batch = 1, channels = 1, pixels = 1, lanes = 1;
  /// Throws Error for tags other than row-major and channel blocks of 8 or 16.
  ChannelLayout(std::span<const int64_t> shape, const char *layout);
  int64_t blocks() const { return (channels + lanes - 1) / lanes; }
  int64_t elements() const { return batch * blocks() * lanes * pixels; }
};

} // namespace pdc::runtime
