#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/ChannelLayout.h"
#include "runtime/kernels/ColumnSumFields.h"

namespace pdc::runtime {

/// sum[c] [+]= over samples and pixels of x[n, c, ...]: the gradient of a bias. A channel is summed
/// by one thread in fixed order.
class ColumnSum {
public:
  ColumnSum(const Device &device, const ColumnSumFields &fields);
  void operator()(const Run &run, const float *x, float *sum, bool add);

private:
  ChannelLayout shape;
  int threads;
};

} // namespace pdc::runtime
