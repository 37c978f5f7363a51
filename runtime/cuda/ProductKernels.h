#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/MatrixProductFields.h"

#include <concepts>
#include <initializer_list>
#include <memory>

/// Matrix products by cuBLASLt, and what its kernels can compute with them: that is measured
/// against two kernels where there is a tuning, and without one it is two. Operands and results are
/// of the types that the fields name.
namespace pdc::runtime::cuda {

/// cuBLASLt, with its epilogues for a bias per column and relu, and with what it adds of the
/// result's shape; any other bias is added behind.
class MatrixProduct {
public:
  MatrixProduct(const Device &device, const MatrixProductFields &fields);
  ~MatrixProduct();
  void operator()(const Run &run, const void *a, const void *b, const void *bias, void *y) {
    call(run, a, b, bias, y, false);
  }
  void operator()(const Run &run, const void *a, const void *b, void *y) {
    call(run, a, b, nullptr, y, false);
  }
  void operator()(const Run &run, const void *a, const void *b, void *y,
                  std::same_as<bool> auto add) {
    call(run, a, b, nullptr, y, add);
  }

private:
  void call(const Run &run, const void *a, const void *b, const void *bias, void *y, bool add);
  std::unique_ptr<class MatrixProductPlan> plan;
};

/// GELU, by the hyperbolic tangent, of a product and its bias per column.
class GeluProduct {
public:
  GeluProduct(const Device &device, const MatrixProductFields &fields);
  ~GeluProduct();
  /// a, b, the bias where there is one; then what GELU is of, where it is kept, and y.
  template <class... Pointers> void operator()(const Run &run, Pointers *...pointers) {
    call(run, {pointers...});
  }

private:
  void call(const Run &run, std::initializer_list<const void *> pointers);
  std::unique_ptr<class GeluPlan> plan;
};

/// A product times the derivative of GELU at its argument.
class GeluGradientProduct {
public:
  GeluGradientProduct(const Device &device, const MatrixProductFields &fields);
  ~GeluGradientProduct();
  void operator()(const Run &run, const void *a, const void *b, const void *argument, void *y);

private:
  std::unique_ptr<class GeluGradientPlan> plan;
};

/// The gradients of a matrix and of the bias behind it: a product, and the sums of the columns of
/// one of its factors.
class SummedProduct {
public:
  SummedProduct(const Device &device, const MatrixProductFields &fields);
  ~SummedProduct();
  /// `add`: to both results.
  void operator()(const Run &run, const void *a, const void *b, float *sums, void *y, bool add);

private:
  std::unique_ptr<class SummedPlan> plan;
};

} // namespace pdc::runtime::cuda
