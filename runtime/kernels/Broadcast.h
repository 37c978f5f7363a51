#pragma once

#include "runtime/Program.h"

#include <vector>

namespace pdc::runtime {

struct BroadcastFields {
  const char *operation = "Add"; ///< Add, Sub, Mul, Div, Max, Min, Pow
  std::vector<int64_t> shape;    ///< of the result, row-major
  std::vector<int64_t> stridesA; ///< 0 where the operand is repeated
  std::vector<int64_t> stridesB;
  double valueA = 0; ///< stands for an operand that is a number (nullptr)
  double valueB = 0;
};

/// y = a operation b for operands that are repeated along dimensions.
class Broadcast {
public:
  Broadcast(const Device &device, const BroadcastFields &fields);
  void operator()(const Run &run, const float *a, const float *b, float *y);

private:
  BroadcastFields fields;
  int threads;
};

} // namespace pdc::runtime
