#pragma once

#include "testsuite/kernels/UnitCase.h"

#include <optional>
#include <random>

namespace pdc {

/// Numbers for drawn test cases.
class Draw {
public:
  explicit Draw(uint32_t seed) : random(seed) {}
  /// From 0 on.
  int64_t below(int64_t end) { return static_cast<int64_t>(random() % end); }
  bool flag() { return below(2) == 1; }
  /// With vectors that this machine has.
  DeviceOptions device() {
    const int most = detectDevice().vectorWidth;
    return {flag(), static_cast<int>(1 + below(2)), flag() ? most : 8};
  }

private:
  std::mt19937 random;
};

/// What an operator's rules or the device refuse at compile time is no case; nothing then.
template <class Make> auto unlessRefused(Make make) -> std::optional<decltype(make())> {
  try {
    return make();
  } catch (const Error &) {
    return std::nullopt;
  }
}

} // namespace pdc
