#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/LibraryCall.h"
#include "runtime/kernels/MatrixProductFields.h"
#include "runtime/kernels/PackedWeight.h"

#include <concepts>
#include <string>

namespace pdc::runtime {

struct MatrixProductGeometry;

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
  void makeAdding(const std::string &unit, const Device &device,
                  const MatrixProductGeometry &geometry);
  void multiply(LibraryCall &product, const float *a, float *y, std::byte *scratch);
  void addRows(const float *a, float *y, std::byte *scratch);
  const float *rowsOf(const float *a, int64_t first, float *copy) const;

  LibraryCall fresh, adding;
  PackedWeight packingA, packingB; ///< of operands whose rows would crowd the cache
  bool swapsFactors;               ///< the library's first is b
  int biasArgument = 0;            ///< of the library; 0: it is not given a bias
  bool hasBias, hasOwnBias, hasRelu;
  Dimensions output, biasStrides; ///< these of a bias that the library is not given
  int64_t rowsAdded = 0; ///< of the result, in each call of `adding`; 0: all, which the library adds
  int64_t columnsAdded = 0, terms = 0, addedBytes = 0;
  bool copiesRows = false; ///< a is transposed: a row's factors lie far from each other
  int threads;
};

} // namespace pdc::runtime
