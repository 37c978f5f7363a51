#include "testsuite/cuda/HostElements.h"
#include "testsuite/cuda/HostNetworks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <stdexcept>

/// Graphs of convolutions, matrix products, pointwise operations, reductions and reshapes, one
/// operation after the other, each rounded to the type of its tensor.
namespace pdc::testing {

namespace {

constexpr size_t kRank = 5;
using Index = std::array<int64_t, kRank>;

/// Five dimensions by strides, the first of which may have been added; held in f32.
struct Operand {
  Index sizes, strides;
  cudnnDataType_t type;
  std::vector<float> values;
  void *memory = nullptr; ///< null: between operations

  int64_t offset(const Index &index) const {
    int64_t at = 0;
    for (size_t d = 0; d < kRank; ++d)
      at += index[d] * strides[d];
    return at;
  }
  float &at(const Index &index) { return values.at(size_t(offset(index))); }
  /// As an operand of something larger: dimensions of size 1 are repeated, heads serve groups.
  float &broadcast(Index index, const Index &within) {
    for (size_t d = 0; d < kRank; ++d)
      index[d] = index[d] * sizes[d] / within[d];
    return at(index);
  }
  cudaDataType_t stored() const {
    return type == CUDNN_DATA_HALF       ? CUDA_R_16F
           : type == CUDNN_DATA_BFLOAT16 ? CUDA_R_16BF
                                         : CUDA_R_32F;
  }
};

template <class Visit> void forEach(const Index &sizes, Visit visit) {
  Index i;
  for (i[0] = 0; i[0] < sizes[0]; ++i[0])
    for (i[1] = 0; i[1] < sizes[1]; ++i[1])
      for (i[2] = 0; i[2] < sizes[2]; ++i[2])
        for (i[3] = 0; i[3] < sizes[3]; ++i[3])
          for (i[4] = 0; i[4] < sizes[4]; ++i[4])
            visit(i);
}

class Operations {
public:
  explicit Operations(const Pointers &pointers) : pointers(pointers) {}

  void run(const Described &operation) {
    switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      holdBetween(operation);
      return convolve(operation, pointers);
    case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR:
      return sumChannels(operation, pointers);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return multiply(operation);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return apply(operation);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return reduce(operation);
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return reshape(operation);
    default:
      throw std::runtime_error("an operation that the emulation of cuDNN does not know");
    }
  }

private:
  /// Convolutions work on memory, also where their result lies between operations.
  void holdBetween(const Described &operation) {
    for (const auto &[name, parts] : operation.parts)
      for (const Described &tensor : parts) {
        if (tensor.type != CUDNN_BACKEND_TENSOR_DESCRIPTOR ||
            !tensor.one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL))
          continue;
        int64_t elements = 1;
        for (int64_t size : tensor.list<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS))
          elements *= size;
        pointers[tensor.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)] =
            held.emplace_back(size_t(elements)).data();
      }
  }

  Operand &operand(const Described &tensor) {
    const auto id = tensor.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    auto [found, isNew] = operands.try_emplace(id);
    Operand &made = found->second;
    if (!isNew)
      return made;
    const auto sizes = tensor.list<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
               strides = tensor.list<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
    made.sizes.fill(1), made.strides.fill(0);
    std::ranges::copy_backward(sizes, made.sizes.end());
    std::ranges::copy_backward(strides, made.strides.end());
    made.type = tensor.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    int64_t span = 1;
    for (size_t d = 0; d < kRank; ++d)
      span += (made.sizes[d] - 1) * made.strides[d];
    made.values.resize(size_t(span));
    if (tensor.one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) && !pointers.contains(id))
      return made;
    made.memory = pointers.at(id);
    for (size_t i = 0; i < made.values.size(); ++i)
      made.values[i] = load(made.memory, made.stored(), int64_t(i));
    return made;
  }

  /// Rounds what was made, and puts it where later operations, or the caller, read it.
  void keep(Operand &y) {
    for (size_t i = 0; i < y.values.size(); ++i) {
      float rounded[1];
      store(rounded, y.stored(), 0, y.values[i]);
      y.values[i] = load(rounded, y.stored(), 0);
      if (y.memory)
        store(y.memory, y.stored(), int64_t(i), y.values[i]);
    }
  }

  void multiply(const Described &operation) {
    Operand &a = operand(operation.part(CUDNN_ATTR_OPERATION_MATMUL_ADESC)),
            &b = operand(operation.part(CUDNN_ATTR_OPERATION_MATMUL_BDESC)),
            &c = operand(operation.part(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    const int64_t inner = a.sizes[4];
    if (b.sizes[3] != inner || a.sizes[3] != c.sizes[3] || b.sizes[4] != c.sizes[4])
      throw std::runtime_error("matrices of a product do not fit");
    forEach(c.sizes, [&](const Index &i) {
      float sum = 0;
      Index withinA = c.sizes, withinB = c.sizes, ofA = i, ofB = i;
      withinA[4] = withinB[3] = inner;
      for (int64_t k = 0; k < inner; ++k) {
        ofA[4] = ofB[3] = k;
        sum += a.broadcast(ofA, withinA) * b.broadcast(ofB, withinB);
      }
      c.at(i) = sum;
    });
    keep(c);
  }

  static float applied(cudnnPointwiseMode_t mode, float x, float b, float t) {
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return x + b;
    case CUDNN_POINTWISE_SUB:
      return x - b;
    case CUDNN_POINTWISE_MUL:
      return x * b;
    case CUDNN_POINTWISE_DIV:
      return x / b;
    case CUDNN_POINTWISE_RELU_FWD:
      return x > 0 ? x : 0;
    case CUDNN_POINTWISE_EXP:
      return std::exp(x);
    case CUDNN_POINTWISE_LOG:
      return std::log(x);
    case CUDNN_POINTWISE_CMP_GE:
      return x >= b;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return t != 0 ? x : b;
    default:
      throw std::runtime_error("a pointwise mode that the emulation of cuDNN does not know");
    }
  }

  void apply(const Described &operation) {
    const Described &kind = operation.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto mode = kind.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    auto optional = [&](int name) {
      return operation.parts.contains(name) ? &operand(operation.part(name)) : nullptr;
    };
    Operand &x = operand(operation.part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC)),
            &y = operand(operation.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    Operand *b = optional(CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
            *t = optional(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    const size_t added = kRank - operation.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC)
                                     .list<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)
                                     .size();
    forEach(y.sizes, [&](const Index &i) {
      y.at(i) = mode == CUDNN_POINTWISE_GEN_INDEX
                    ? float(i.at(size_t(kind.one<int64_t>(CUDNN_ATTR_POINTWISE_AXIS)) + added))
                    : applied(mode, x.broadcast(i, y.sizes), b ? b->broadcast(i, y.sizes) : 0,
                              t ? t->broadcast(i, y.sizes) : 0);
    });
    keep(y);
  }

  void reduce(const Described &operation) {
    const auto op = operation.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
                        .one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
    Operand &x = operand(operation.part(CUDNN_ATTR_OPERATION_REDUCTION_XDESC)),
            &y = operand(operation.part(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
    const bool isMost = op == CUDNN_REDUCE_TENSOR_MAX;
    forEach(y.sizes, [&](const Index &i) {
      y.at(i) = isMost ? -std::numeric_limits<float>::infinity() : 0.0f;
    });
    forEach(x.sizes, [&](const Index &i) {
      float &to = y.broadcast(i, x.sizes);
      to = isMost ? std::max(to, x.at(i)) : to + x.at(i);
    });
    keep(y);
  }

  /// The same memory, read by other sizes and strides.
  void reshape(const Described &operation) {
    Operand &x = operand(operation.part(CUDNN_ATTR_OPERATION_RESHAPE_XDESC)),
            &y = operand(operation.part(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
    if (x.values.size() != y.values.size())
      throw std::runtime_error("a reshape changes the number of elements");
    y.values = x.values;
    keep(y);
  }

  Pointers pointers;                   ///< and those of what is held
  std::deque<std::vector<float>> held; ///< what convolutions make for the operations behind them
  std::map<int64_t, Operand> operands; ///< by id
};

} // namespace

void operate(const std::vector<Described> &operations, const Pointers &pointers) {
  Operations all(pointers);
  for (const Described &operation : operations)
    all.run(operation);
}

} // namespace pdc::testing
