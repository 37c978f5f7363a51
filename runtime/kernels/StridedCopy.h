#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/Dimensions.h"

namespace pdc::runtime {

struct StridedCopyFields {
  double fill = 0;
  int64_t inputOffset = 0;
  Dimensions inputStrides;
  int64_t outputElements = 0; ///< if given, all of the result is filled first
  int64_t outputOffset = 0;
  Dimensions outputStrides;
  Dimensions shape; ///< of what is copied
};

/// Transpositions, slices, pads and repetitions: elements of one array to places in another. The
/// places in the result differ.
class StridedCopy {
public:
  StridedCopy(const Device &device, const StridedCopyFields &fields);
  /// T: float, int64_t, int32_t, uint8_t.
  template <class T> void operator()(const Run &run, const T *x, T *y) const;

private:
  StridedCopyFields fields;
  int threads;
};

} // namespace pdc::runtime
