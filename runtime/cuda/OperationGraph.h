#pragma once

#include "runtime/cuda/CudnnGraph.h"

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace pdc::runtime::cuda {

/// Operations of cuDNN's graph API that follow one another, as the library fuses them into one
/// kernel. Tensors between operations are never in memory.
class OperationGraph {
public:
  using Sizes = std::vector<int64_t>;
  /// A tensor of the graph, by its place.
  using Tensor = size_t;

  /// `unit` is for errors and outlives the graph.
  explicit OperationGraph(const char *unit) : unit(unit) {}

  /// One in the device's memory, which a call points to by `idOf`.
  Tensor inMemory(cudnnDataType_t type, const Sizes &sizes, const Sizes &strides);
  /// A number, which a call points to in the host's memory.
  Tensor number(float value);
  /// What an operation makes for those after it.
  Tensor between(const Sizes &sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  Tensor between(const Sizes &sizes, const Sizes &strides, cudnnDataType_t type);

  /// Matrices of the last two dimensions; the others are batches, broadcast.
  void multiply(Tensor a, Tensor b, Tensor product);
  /// y = mode(x), mode(x, b) or, for a selection, t ? x : b.
  void apply(cudnnPointwiseMode_t mode, const std::vector<Tensor> &operands, Tensor y);
  /// y = the index of each element along an axis.
  void index(int64_t axis, Tensor x, Tensor y);
  /// Along the dimensions in which y has size 1, or fewer than x.
  void reduce(cudnnReduceTensorOp_t op, Tensor x, Tensor y);
  /// y is x, its dimensions read in the order of y's sizes and strides.
  void reshape(Tensor x, Tensor y);

  /// Another operation, on tensors of this graph.
  void add(Descriptor operation) { operations.push_back(std::move(operation)); }

  /// apply() into a new tensor between operations, of the first operand's sizes.
  Tensor made(cudnnPointwiseMode_t mode, const std::vector<Tensor> &operands,
              cudnnDataType_t type = CUDNN_DATA_FLOAT);

  Descriptor finish(const PlanTarget &target) const;

  const Descriptor &at(Tensor tensor) const { return tensors[tensor].descriptor; }
  /// Its place, from 1 on.
  int64_t idOf(Tensor tensor) const { return static_cast<int64_t>(tensor) + 1; }
  const Sizes &sizesOf(Tensor tensor) const { return tensors[tensor].sizes; }
  const Sizes &stridesOf(Tensor tensor) const { return tensors[tensor].strides; }
  /// Of number().
  const float *valueOf(Tensor tensor) const { return &tensors[tensor].value; }

private:
  struct Described {
    Sizes sizes, strides;
    cudnnDataType_t type;
    float value;
    Descriptor descriptor;
  };
  enum class Home { device, host, none };
  Tensor describe(Home home, cudnnDataType_t type, const Sizes &sizes, const Sizes &strides,
                  float value = 0);
  Descriptor pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t compute, int64_t axis) const;

  const char *const unit;
  std::deque<Described> tensors;
  std::vector<Descriptor> operations;
};

/// Strides of a tensor whose last dimension is the innermost.
std::vector<int64_t> packedStrides(const std::vector<int64_t> &sizes);

} // namespace pdc::runtime::cuda
