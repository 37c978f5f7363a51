#pragma once

#include "runtime/cuda/Libraries.h"
#include "runtime/cuda/MatrixBatches.h"

#include "runtime/Tuning.h"

#include <array>
#include <string>
#include <vector>

namespace pdc::runtime::cuda {

/// What a kernel of the library computes with a product, beyond the bias and relu of its fields.
enum class ProductEpilogue : uint8_t {
  none,
  gelu,         ///< GELU of it, by the hyperbolic tangent
  geluKept,     ///< and what GELU is of
  geluGradient, ///< it times the derivative of GELU at what GELU was of
  sumsOfA,      ///< and the sums of the columns of a
  sumsOfB,
};

/// As problems that are measured have it.
const char *toString(ProductEpilogue epilogue);

/// One of cuBLASLt's kernels for a matrix product. The library counts columns first, so it is asked
/// for y^T = op(b)^T op(a)^T: row-major tensors are their own transposes to it, and a bias per
/// column of y is its bias per row.
class MatrixProductPlan {
public:
  /// Throws Error naming the unit where the library has none. An epilogue is that of one matrix.
  /// Bias and relu of the fields are the library's where it has kernels with them, else they are
  /// added and rectified behind it, where 16 bits are rounded twice.
  MatrixProductPlan(const Device &device, const MatrixProductFields &fields,
                    ProductEpilogue epilogue = ProductEpilogue::none);
  /// What fails when it runs first gives way to the next that the library ranks, but where bits are
  /// kept (`exact`), where half of it may have been added to y, and while it is recorded. `beside`:
  /// what GELU is of (written, or read for its gradient), or a factor's sums (written).
  void operator()(const Run &run, const void *a, const void *b, const void *bias, void *y, bool add,
                  void *beside = nullptr);
  /// All that the library's ranking depends on but the device.
  std::string problem() const;

private:
  /// One of the library's objects, destroyed by its own function.
  template <class T, cublasStatus_t (*Destroy)(T)> class Owned {
  public:
    Owned() = default;
    Owned(const Owned &) = delete;
    ~Owned() {
      if (object)
        Destroy(object);
    }
    T object = nullptr;
  };
  using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
  using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

  /// `added`: a matrix like y, or y itself, or null.
  struct Operands {
    const void *a, *b, *added;
    void *y;
  };
  void describe();
  void describeEpilogue();
  cublasLtEpilogue_t libraryEpilogue() const;
  bool isRectified() const;
  void describeLayout(Layout &layout, cudaDataType_t type, int64_t rows, int64_t columns,
                      int64_t pitch, int64_t stride);
  /// What the library adds is of the result's type.
  bool addsColumnBias() const;
  bool addsAddend() const;
  bool addsBias() const { return addsColumnBias() || addsAddend(); }
  bool sumsColumns() const {
    return epilogue == ProductEpilogue::sumsOfA || epilogue == ProductEpilogue::sumsOfB;
  }
  bool hasArgument() const {
    return epilogue == ProductEpilogue::geluKept || epilogue == ProductEpilogue::geluGradient;
  }
  void findAlgorithms();
  cublasStatus_t askForAlgorithms();
  void point(const void *bias, void *beside);
  void tune(const Run &run, const Operands &operands);
  void runTaken(const Run &run, const Operands &operands, bool isApart);
  bool replace(const Run &run, const Operands &operands);
  cublasStatus_t multiply(const Run &run, const Operands &operands,
                          const cublasLtMatmulAlgo_t &algorithm);
  std::array<uint32_t, 3> alignments() const;
  uint32_t alignmentOf(int64_t MatrixBatches::Start::*operand, cudaDataType_t type) const;
  const void *at(const void *factor, int64_t element) const;
  void finishHere(const Run &run, const void *bias, void *y) const;
  template <class T> void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    require(cublasLtMatmulDescSetAttribute(description.object, attribute, &value, sizeof value),
            "cublasLtMatmulDescSetAttribute", fields.name);
  }

  const MatrixProductFields fields;
  const ProductEpilogue epilogue;
  const MatrixBatches batches;
  const size_t workspace;
  const Factors factors;
  const cudaDataType_t read, stored; ///< of a, b and bias; of y
  const bool exact;
  bool finishes = true; ///< the library: column bias and relu are in its epilogue
  Description description;
  Layout first, second, result;                 ///< b, a, y
  std::vector<cublasLtMatmulAlgo_t> algorithms; ///< as the library ranks them
  size_t taken = 0;                             ///< of them, by what adds too
  bool isFinal = false;                         ///< a later failure is no reason for other bits
  Tuning *tuning;                               ///< null once it has measured, or none
};

} // namespace pdc::runtime::cuda
