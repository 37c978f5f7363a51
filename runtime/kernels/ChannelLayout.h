#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace pdc::runtime {

/// How an NC... tensor lies in memory: [batch][channel block][pixel][lane].
struct ChannelLayout {
  int64_t batch = 1, channels = 1, pixels = 1, lanes = 1;
  /// Throws Error for tags other than row-major and channel blocks of 8 or 16.
  ChannelLayout(const std::vector<int64_t> &shape, std::string_view tag);
  int64_t blocks() const { return (channels + lanes - 1) / lanes; }
  int64_t elements() const { return batch * blocks() * lanes * pixels; }
};

} // namespace pdc::runtime
