#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/LibraryCall.h"
#include "runtime/kernels/ReorderFields.h"

namespace pdc::runtime {

/// The same values in another layout; padding becomes zero.
class Reorder {
public:
  Reorder(const Device &device, const ReorderFields &fields);
  void operator()(const Run &run, const float *x, float *y);

private:
  LibraryCall call;
};

} // namespace pdc::runtime
