#pragma once

#include "runtime/Program.h"

#include <vector>

namespace pdc::runtime {

struct StridedCopyFields {
  double fill = 0;
  int64_t inputOffset = 0;
  std::vector<int64_t> inputStrides;
  int64_t outputElements = 0; ///< if given, all of the result is filled first
  int64_t outputOffset = 0;
  std::vector<int64_t> outputStrides;
  std::vector<int64_t> shape; ///< of what is copied
};

/// Transpositions, slices, pads and repetitions: elements of one array to places in another.
class StridedCopy {
public:
  StridedCopy(const Device &device, const StridedCopyFields &fields);
  void operator()(const Run &run, const float *x, float *y);

private:
  StridedCopyFields fields;
  int threads;
};

} // namespace pdc::runtime
