#pragma once

#include "runtime/kernels/BatchNormalizationFields.h"
#include "runtime/kernels/ChannelLayout.h"
#include "runtime/kernels/NormalizationPointers.h"

namespace pdc::runtime {

/// Operands are dy, [y, the result of the relu behind it,] x, scale, saved mean, saved inverse;
/// results dx, gradients of scale and bias.
class BatchNormalizationGradient {
public:
  BatchNormalizationGradient(const Device &device, const BatchNormalizationFields &fields);
  template <class... Pointers> void operator()(const Run &run, Pointers *...pointers) {
    call(run, NormalizationPointers<3>(fields.results, fields.relu ? 6 : 5, {pointers...}));
  }

private:
  void call(const Run &run, const NormalizationPointers<3> &pointers);
  BatchNormalizationFields fields;
  ChannelLayout shape;
  int threads;
};

} // namespace pdc::runtime
