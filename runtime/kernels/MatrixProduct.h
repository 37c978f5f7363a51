#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/LibraryCall.h"
#include "runtime/kernels/MatrixProductFields.h"
#include "runtime/kernels/PackedWeight.h"

#include <concepts>

namespace pdc::runtime {

/// y [+]= alpha a b [+ bias], relu(...). The sum excludes bias and relu.
class MatrixProduct {
public:
  MatrixProduct(const Device &device, const MatrixProductFields &fields);
  void operator()(const Run &run, const float *a, const float *b, const float *bias, float *y) {
    call(fresh, run, a, b, bias, y);
  }
  void operator()(const Run &run, const float *a, const float *b, float *y) {
    call(fresh, run, a, b, nullptr, y);
  }
  /// Adds to y where `add`; only where the fields say `sums`, without bias and relu.
  void operator()(const Run &run, const float *a, const float *b, float *y,
                  std::same_as<bool> auto add) {
    call(add ? adding : fresh, run, a, b, nullptr, y);
  }

private:
  void call(LibraryCall &product, const Run &run, const float *a, const float *b, const float *bias,
            float *y);
  void addOwnBias(const float *bias, float *y) const;

  LibraryCall fresh, adding;
  PackedWeight packingA, packingB; ///< of operands whose rows would crowd the cache
  bool swapsFactors;               ///< the library's first is b
  int biasArgument = 0;            ///< of the library; 0: it is not given a bias
  bool hasBias, hasOwnBias, hasRelu;
  Dimensions output, biasStrides; ///< these of a bias that the library is not given
  int threads;
};

} // namespace pdc::runtime
