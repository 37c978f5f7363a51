#pragma once

#include "runtime/kernels/ChannelLayout.h"
#include "runtime/kernels/GroupNormalizationFields.h"
#include "runtime/kernels/NormalizationPointers.h"

namespace pdc::runtime {

/// Operands are dy, x, scale, bias, mean and inverse; results dx, gradients of scale and bias,
/// which are summed in the order of samples. The workspace has two numbers per channel of each
/// sample.
class GroupNormalizationGradient {
public:
  GroupNormalizationGradient(const Device &device, const GroupNormalizationFields &fields);
  template <class... Pointers> void operator()(const Run &run, Pointers... pointers) const {
    call(run, NormalizationPointers<3>(fields.results, 6, {pointers...}));
  }

private:
  void call(const Run &run, const NormalizationPointers<3> &pointers) const;
  GroupNormalizationFields fields;
  ChannelLayout shape;
  int threads;
};

} // namespace pdc::runtime
