#pragma once

#include <cstdint>
#include <vector>

namespace pdc::runtime {

struct DropoutFields {
  std::vector<int64_t> input; ///< shape, samples first
  int64_t key = 0;
  const char *layout = "";
  double ratio = 0.5;
};

} // namespace pdc::runtime
