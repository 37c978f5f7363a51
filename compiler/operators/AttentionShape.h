#pragma once

#include "compiler/operators/Operator.h"

namespace pdc {

/// Exporters hide a key by a score from here down, whose exponential is 0.
inline constexpr double kHidden = -1e4;

/// The sizes that a SoftmaxAttention has and its gradient shares; `first` is the input that holds
/// the queries. Keys, values, mask and random numbers follow. Without values the keys' tensor holds
/// them behind the heads of keys; without keys, too, the queries' tensor holds all.
struct AttentionShape {
  int64_t batch, heads, keyHeads, queries, keys, width, valueWidth;
  /// How many of queries, keys and values are in one tensor: 0, 2 or 3.
  int64_t joined = 0;
  /// For queries, keys, values and results: 1 where rows (the sequence) come before heads, 2 where
  /// they come before the batch, too.
  std::vector<int64_t> rowsFirst;
  /// Of one element of the mask to the next, by batch, head, query and key; empty without a mask.
  std::vector<int64_t> maskStrides;
  /// That samples take in turn; 0: each has its own, or all have one.
  int64_t masks = 0;

  /// Throws Error for what does not fit; `mask` is the input that holds the mask.
  AttentionShape(const NodeView &node, size_t first, size_t mask);

  std::vector<int64_t> result() const;
  int64_t maskOf(int64_t sample) const { return masks ? sample % masks : sample; }
  /// How many gradients of masks there are: samples that share a mask have one together.
  int64_t maskGradients() const { return maskStrides[0] == 0 ? 1 : masks ? masks : batch; }
  std::vector<int64_t> perRow() const { return {batch, heads, queries}; }
  /// Which of the tensors that there are holds operand 0 to 2.
  size_t tensorOf(size_t operand) const;
  size_t tensors() const { return joined == 0 ? 3 : joined == 2 ? 2 : 1; }
  /// Of element 0 of a head of operand 0 to 3 (queries, keys, values, results), its rows lying
  /// `rowStride` apart.
  int64_t offset(size_t operand, int64_t b, int64_t h) const;
  int64_t rowStride(size_t operand) const;
  /// Keys that a query sees: those up to `past` behind its own place, or all.
  static int64_t visible(const Attributes &attributes, int64_t query, int64_t keys);

private:
  void readSizes(const NodeView &node, size_t first);
  /// Of a tensor that holds keys and values or all: its heads, and those before the operand's.
  int64_t headsAcross(size_t operand) const;
  int64_t headsBefore(size_t operand) const;
  int64_t headsOf(size_t operand) const { return operand == 1 || operand == 2 ? keyHeads : heads; }
  int64_t rowsOf(size_t operand) const { return operand == 1 || operand == 2 ? keys : queries; }
  int64_t widthOf(size_t operand) const { return operand < 2 ? width : valueWidth; }
};

} // namespace pdc
