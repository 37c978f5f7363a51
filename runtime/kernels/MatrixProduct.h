#pragma once

#include "runtime/kernels/Library.h"

#include <concepts>
#include <vector>

namespace pdc::runtime {

/// Shapes of rank 2 or more as stored, row-major; leading dimensions broadcast.
struct MatrixProductFields {
  std::vector<int64_t> a;
  double alpha = 1;
  std::vector<int64_t> b;
  std::vector<int64_t> bias; ///< shape, of the output's rank; empty: none
  const char *name = "";
  std::vector<int64_t> output;
  int64_t relu = 0;
  int64_t transA = 0; ///< the last two dimensions are swapped
  int64_t transB = 0;
};

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
  /// Adds to y where `add`; only without bias and relu.
  void operator()(const Run &run, const float *a, const float *b, float *y,
                  std::same_as<bool> auto add) {
    call(add ? adding : fresh, run, a, b, nullptr, y);
  }

private:
  void call(LibraryCall &product, const Run &run, const float *a, const float *b, const float *bias,
            float *y);
  void addRowBias(const float *bias, float *y) const;

  LibraryCall fresh, adding;
  int biasArgument = 0; ///< of the library; 0: it is not given a bias
  bool hasBias, hasRowBias, hasRelu;
  int64_t rows, columns;
  int threads;
};

} // namespace pdc::runtime
