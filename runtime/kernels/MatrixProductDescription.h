#pragma once

#include "runtime/kernels/Library.h"
#include "runtime/kernels/MatrixProductFields.h"

/// What oneDNN is asked for a product of matrices: by the kernel, which runs the answer, and by the
/// compiler, which plans its workspace.
namespace pdc::runtime {

/// A shape behind dimensions of one element.
Dimensions ofRank(const Dimensions &shape, size_t rank);

/// A product in the library's terms. The library is asked for the layout of a packed b, under the
/// threads that are set.
struct MatrixProductGeometry {
  /// `lanes`: floats in a vector register of the target.
  MatrixProductGeometry(const MatrixProductFields &given, int lanes);

  /// What the library computes, as one matrix where the batch's rows or columns make one.
  MatrixProductFields product;
  bool swapsFactors;                 ///< the library's first is the given b
  bool addsOwnBias;                  ///< the kernel adds bias and relu, behind the library
  dnnl::memory::desc a, b, y;        ///< as the library reads and writes them
  dnnl::memory::desc bias;           ///< empty: none
  dnnl::memory::desc plainA, plainB; ///< as given; empty where `a`, `b` are
  /// Of the product that is added to an earlier one: rows that are computed at once and then added.
  /// 0: the library adds.
  int64_t rowsAddedAtOnce = 0;
  /// Of the first rows: each term's factors of them are copied side by side, as the library's fast
  /// products want a transposed a. 0: they lie so.
  int64_t copiedTerms = 0;

  /// What the kernel holds of rows that are added at once, beside the library's own scratch.
  int64_t addedBytes() const;
};

/// Throws dnnl::error where the library has no implementation.
dnnl::matmul::primitive_desc describeMatrixProduct(const MatrixProductGeometry &geometry, bool add);

/// The product of the first rows that are added at once.
MatrixProductGeometry firstRows(MatrixProductGeometry geometry);

/// Where the library takes the bias.
int biasArgument(const MatrixProductGeometry &geometry);

} // namespace pdc::runtime
