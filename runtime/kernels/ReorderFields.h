#pragma once

#include <cstdint>
#include <vector>

namespace pdc::runtime {

struct ReorderFields {
  const char *from = "";
  const char *name = "";
  std::vector<int64_t> shape;
  const char *to = "";
};

} // namespace pdc::runtime
