#pragma once

#include "runtime/kernels/BatchNormalizationFields.h"
#include "runtime/kernels/ChannelLayout.h"
#include "runtime/kernels/NormalizationPointers.h"

namespace pdc::runtime {

/// Training: by the batch's own statistics (population variance). Operands are x, scale, bias,
/// running mean, running variance; results y, new running mean and variance (which may be the
/// operands' own memory), the batch's mean, 1 / sqrt(variance + epsilon).
class BatchNormalization {
public:
  BatchNormalization(const Device &device, const BatchNormalizationFields &fields);
  template <class... Pointers> void operator()(const Run &run, Pointers *...pointers) {
    call(run, NormalizationPointers<5>(fields.results, 5, {pointers...}));
  }

private:
  void call(const Run &run, const NormalizationPointers<5> &pointers);
  BatchNormalizationFields fields;
  ChannelLayout shape;
  int threads;
};

} // namespace pdc::runtime
