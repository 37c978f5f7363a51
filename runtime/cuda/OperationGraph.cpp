#include "runtime/cuda/OperationGraph.h"

namespace pdc::runtime::cuda {

std::vector<int64_t> packedStrides(const std::vector<int64_t> &sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0; step *= sizes[d])
    strides[d] = step;
  return strides;
}

OperationGraph::Tensor OperationGraph::describe(Home home, cudnnDataType_t type, const Sizes &sizes,
                                           const Sizes &strides, float value) {
  const int64_t id = idOf(tensors.size());
  const bool isVirtual = home == Home::none, isByValue = home == Home::host;
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, unit);
  tensor.setRaw(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, sizes);
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t(16));
  tensor.setRaw(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &isVirtual);
  tensor.setRaw(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &isByValue);
  tensor.finish();
  tensors.push_back({sizes, strides, type, value, std::move(tensor)});
  return tensors.size() - 1;
}

OperationGraph::Tensor OperationGraph::inMemory(cudnnDataType_t type, const Sizes &sizes,
                                                const Sizes &strides) {
  return describe(Home::device, type, sizes, strides);
}

OperationGraph::Tensor OperationGraph::number(float value) {
  return describe(Home::host, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, value);
}

OperationGraph::Tensor OperationGraph::between(const Sizes &sizes, cudnnDataType_t type) {
  return between(sizes, packedStrides(sizes), type);
}

OperationGraph::Tensor OperationGraph::between(const Sizes &sizes, const Sizes &strides,
                                               cudnnDataType_t type) {
  return describe(Home::none, type, sizes, strides);
}

void OperationGraph::multiply(Tensor a, Tensor b, Tensor product) {
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  Descriptor kind(CUDNN_BACKEND_MATMUL_DESCRIPTOR, unit);
  kind.setRaw(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  kind.finish();
  Descriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, unit);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, at(a));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, at(b));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, at(product));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
  operation.finish();
  add(std::move(operation));
}

/// `axis`: -1 where the mode has none.
Descriptor OperationGraph::pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t compute,
                                     int64_t axis) const {
  Descriptor kind(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, unit);
  kind.setRaw(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  kind.setRaw(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  if (axis >= 0)
    kind.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  kind.finish();
  return kind;
}

void OperationGraph::apply(cudnnPointwiseMode_t mode, const std::vector<Tensor> &operands,
                           Tensor y) {
  const bool compares = tensors[y].type == CUDNN_DATA_BOOLEAN;
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, unit);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                pointwise(mode, compares ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT, -1));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(operands[0]));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(y));
  if (operands.size() > 1)
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(operands[1]));
  if (operands.size() > 2)
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, at(operands[2]));
  operation.finish();
  add(std::move(operation));
}

void OperationGraph::index(int64_t axis, Tensor x, Tensor y) {
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, unit);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                pointwise(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(x));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(y));
  operation.finish();
  add(std::move(operation));
}

void OperationGraph::reduce(cudnnReduceTensorOp_t op, Tensor x, Tensor y) {
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  Descriptor kind(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, unit);
  kind.setRaw(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op);
  kind.setRaw(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  kind.finish();
  Descriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, unit);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, at(x));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, at(y));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
  operation.finish();
  add(std::move(operation));
}

void OperationGraph::reshape(Tensor x, Tensor y) {
  Descriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, unit);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, at(x));
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, at(y));
  operation.finish();
  add(std::move(operation));
}

OperationGraph::Tensor OperationGraph::made(cudnnPointwiseMode_t mode,
                                            const std::vector<Tensor> &operands,
                                            cudnnDataType_t type) {
  const Tensor y = between(sizesOf(operands[0]), type);
  apply(mode, operands, y);
  return y;
}

Descriptor OperationGraph::finish(const PlanTarget &target) const {
  return graphOf(operations, target, unit);
}

} // namespace pdc::runtime::cuda
