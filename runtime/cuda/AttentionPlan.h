#pragma once

#include "runtime/cuda/LibraryPlan.h"
#include "runtime/cuda/OperationGraph.h"
#include "runtime/kernels/AttentionFields.h"

#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

namespace pdc::runtime::cuda {

/// Softmax attention of 16 bits, or its gradients of queries, keys and values, as one plan of
/// cuDNN: tensor cores, and no scores in memory. Reads and writes what the kernel of Attention.cu
/// does, the logarithms of the rows' sums too. Gradients are computed part by part where the fields
/// say how much together.
class AttentionPlan {
public:
  enum class Use { results, resultsAndSums, gradients };

  AttentionPlan(const PlanTarget &target, const KernelRules &rules, const AttentionFields &fields,
                Use use);

  /// False where the library has none for this device.
  explicit operator bool() const { return bool(plan); }
  size_t candidates() const { return plan.candidates(); }
  int64_t workspaceBytes() const { return plan.workspaceBytes() + ownBytes; }

  /// In the order of the kernel's operands. Without a mask, `mask` is left out of the plan.
  void results(const Run &run, const void *q, const void *k, const void *v, const void *mask,
               void *y, float *logSums);
  /// `operands`: dy, q, k, v, y; `made`: dq, dk, dv.
  void gradients(const Run &run, std::initializer_list<const void *> operands, const float *logSums,
                 const void *mask, std::initializer_list<void *> made);

private:
  using Tensor = OperationGraph::Tensor;
  using Sizes = OperationGraph::Sizes;

  Descriptor describe(const PlanTarget &target, Use use);
  void describeResults(Use use);
  void describeGradients();
  Tensor operand(int number, bool isTurned = false);
  std::optional<Tensor> mask();
  Tensor number(float value);
  Tensor given(Tensor tensor);
  Tensor scores(Tensor q, Tensor turnedKeys, std::optional<Tensor> mask);
  Tensor seen(Tensor scores);
  void multiplyTurned(Tensor shares, Tensor right, Tensor result);
  std::vector<const void *> partFrom(std::vector<const void *> pointers, int64_t b,
                                     int64_t keyHead) const;
  Sizes ofRows() const;
  Tensor sumsOfRows();
  void call(const Run &run, std::vector<const void *> pointers);

  const AttentionFields whole;  ///< in which operands lie
  const AttentionFields fields; ///< of what is computed at once
  const cudnnDataType_t type;
  const int64_t ownBytes; ///< of the workspace, behind the library's
  OperationGraph graph;
  std::vector<Tensor> numbers; ///< by value
  std::vector<int64_t> ids;    ///< of what calls point to, in their order, then of the numbers
  std::vector<const void *> numberPointers;
  LibraryPlan plan;
};

/// The one plan of this thread for all kernels of equal fields: the library compiles each for
/// seconds. Null where the fields ask for none, and, with a warning, where the library has none.
std::shared_ptr<AttentionPlan> sharedPlan(const Device &device, const AttentionFields &fields,
                                          AttentionPlan::Use use);

} // namespace pdc::runtime::cuda
