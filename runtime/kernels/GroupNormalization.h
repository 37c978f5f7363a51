#pragma once

#include "runtime/kernels/ChannelLayout.h"
#include "runtime/kernels/GroupNormalizationFields.h"
#include "runtime/kernels/NormalizationPointers.h"

namespace pdc::runtime {

/// Operands are x, scale and bias, one number per channel each or nullptr; results y, and for each
/// group of each sample the mean and 1 / sqrt(variance + epsilon).
class GroupNormalization {
public:
  GroupNormalization(const Device &device, const GroupNormalizationFields &fields);
  template <class... Pointers> void operator()(const Run &run, Pointers... pointers) const {
    call(run, NormalizationPointers<3>(fields.results, 3, {pointers...}));
  }

private:
  void call(const Run &run, const NormalizationPointers<3> &pointers) const;
  GroupNormalizationFields fields;
  ChannelLayout shape;
  int threads;
};

} // namespace pdc::runtime
