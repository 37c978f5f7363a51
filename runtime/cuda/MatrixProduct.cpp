#include "runtime/cuda/MatrixProductPlan.h"
#include "runtime/cuda/ProductKernels.h"

namespace pdc::runtime::cuda {

MatrixProduct::MatrixProduct(const Device &device, const MatrixProductFields &fields)
    : plan(std::make_unique<MatrixProductPlan>(device, fields)) {}
MatrixProduct::~MatrixProduct() = default;

void MatrixProduct::call(const Run &run, const void *a, const void *b, const void *bias, void *y,
                         bool add) {
  (*plan)(run, a, b, bias, y, add);
}

} // namespace pdc::runtime::cuda
