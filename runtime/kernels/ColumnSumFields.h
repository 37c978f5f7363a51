#pragma once

#include <cstdint>
#include <vector>

namespace pdc::runtime {

struct ColumnSumFields {
  std::vector<int64_t> input; ///< shape
  const char *layout = "";
};

} // namespace pdc::runtime
