#pragma once

#include "runtime/cuda/LibraryPlan.h"
#include "runtime/cuda/OperationGraph.h"
#include "runtime/kernels/AttentionFields.h"

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

namespace pdc::runtime::cuda {

/// Softmax attention of 16 bits, or its gradients of queries, keys and values, as one plan of
/// cuDNN: tensor cores, and no scores in memory. Reads and writes what the kernel of Attention.cu
/// does, the logarithms of the rows' sums too. Computed part by part where the fields say how much
/// together. Which shares dropout keeps, and masks that the library does not know, are made by the
/// caller at places of the workspace; the gradient of a mask is taken from one.
class AttentionPlan {
public:
  enum class Use { results, resultsAndSums, gradients };

  AttentionPlan(const PlanTarget &target, const KernelRules &rules, const AttentionFields &fields,
                Use use, Tuning *tuning = nullptr);

  /// False where the library has none for this device.
  explicit operator bool() const { return bool(plan); }
  size_t candidates() const { return plan.candidates(); }
  std::string describeCandidates() const { return plan.describeCandidates(); }
  int64_t workspaceBytes() const { return plan.workspaceBytes() + ownBytes(); }

  /// Where the mask is to be made that takes the kernel's place (AddedMask); null: nowhere.
  float *maskPlace(const Run &run) const;
  /// Where the sums of rows are to be made that no result asks for; null: nowhere.
  float *sumsPlace(const Run &run) const;
  /// Of a score that is not seen.
  static float hiddenScore();
  /// Where a 1 of the stored type is to be made for each share that dropout keeps in a part, else
  /// 0; null: nowhere.
  void *keptPlace(const Run &run) const;
  /// Where a part's gradient of the mask lies behind it, in the stored type, as the mask's
  /// elements; null: nowhere.
  const void *maskGradientPlace(const Run &run) const;
  /// Of a part, with its first sample and head.
  using PartAction = std::function<void(const AttentionFields &part, int64_t b, int64_t head)>;

  /// In the order of the kernel's operands. Without a mask, `mask` is left out of the plan.
  void results(const Run &run, const void *q, const void *k, const void *v, const void *mask,
               void *y, float *logSums, const PartAction &before);
  /// `operands`: dy, q, k, v, y; `made`: dq, dk, dv.
  void gradients(const Run &run, std::initializer_list<const void *> operands, const float *logSums,
                 const void *mask, std::initializer_list<void *> made, const PartAction &before,
                 const PartAction &after);

private:
  using Tensor = OperationGraph::Tensor;
  using Sizes = OperationGraph::Sizes;

  Descriptor describe(const PlanTarget &target, Use use);
  void describeResults(Use use);
  void describeGradients();
  /// What a pointer of a call points to, which says where it points in the next part: an operand by
  /// its number, a number for each row, the mask, or the same place.
  enum Kind { kQueries, kKeys, kValues, kResults, kRows, kMask, kPlace };

  Tensor operand(Kind number, bool isTurned = false);
  std::optional<Tensor> mask();
  std::optional<Tensor> kept();
  Tensor number(float value);
  Tensor given(Tensor tensor, Kind kind);
  Tensor scores(Tensor q, Tensor turnedKeys, std::optional<Tensor> mask);
  Tensor seen(Tensor scores);
  void multiplyTurned(Tensor shares, Tensor right, Tensor result);
  float growth() const;
  Tensor dropped(Tensor shares, std::optional<Tensor> kept, cudnnDataType_t made);
  int64_t advance(Kind kind, int64_t b, int64_t keyHead) const;
  Sizes ofRows() const;
  static Sizes ofMask(const AttentionFields &f);
  Tensor sumsOfRows();
  std::byte *own(const Run &run, int64_t offset) const;
  int64_t ownBytes() const { return sumBytes + keptBytes + maskBytes + maskGradientBytes; }
  void call(const Run &run, const std::vector<const void *> &pointers, FirstRun first,
            const PartAction &before, const PartAction &after = {});

  const AttentionFields whole;  ///< in which operands lie, as the library is told
  const AttentionFields fields; ///< of what is computed at once
  const cudnnDataType_t type;
  /// Of the workspace, before the library's.
  const int64_t sumBytes, keptBytes, maskBytes, maskGradientBytes;
  OperationGraph graph;
  std::vector<Tensor> numbers; ///< by value
  std::vector<int64_t> ids;    ///< of what calls point to, in their order, then of the numbers
  std::vector<Kind> kinds;     ///< of what calls point to
  std::vector<const void *> numberPointers;
  LibraryPlan plan;
};

/// The one plan of this thread for all kernels of equal fields: the library compiles each for
/// seconds. Null where the fields ask for none, and, with a warning, where the library has none.
std::shared_ptr<AttentionPlan> sharedPlan(const Device &device, const AttentionFields &fields,
                                          AttentionPlan::Use use);

} // namespace pdc::runtime::cuda
