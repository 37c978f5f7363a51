#pragma once

#include "runtime/kernels/Library.h"

#include <vector>

namespace pdc::runtime {

struct ReorderFields {
  const char *from = "";
  const char *name = "";
  std::vector<int64_t> shape;
  const char *to = "";
};

/// The same values in another layout; padding becomes zero.
class Reorder {
public:
  Reorder(const Device &device, const ReorderFields &fields);
  void operator()(const Run &run, const float *x, float *y);

private:
  LibraryCall call;
};

} // namespace pdc::runtime
