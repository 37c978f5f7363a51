#pragma once

#include "runtime/kernels/Dimensions.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace pdc::runtime {

/// Below that, where a finite number hides all keys of a row, the logarithm of the row's sum is
/// rounded off beside the number.
inline constexpr float kCoarseLogSum = -1000;

/// Softmax attention: y = dropout(softmax(scale q k^T + mask)) v for each head; heads of keys and
/// values serve groups of neighbouring heads of queries. A row that sees no key has shares of 0,
/// and infinity for the logarithm of its sum, from which the gradient makes shares of 0 again.
struct AttentionFields {
  int64_t batch = 1;
  /// How many samples a library's gradient takes at once, since it holds their scores; 0: all.
  int64_t batchTogether = 0;
  int64_t boolean = 0; ///< the mask is one of bytes: 0 where a key is not seen
  int64_t causal = 0;  ///< query i sees keys up to i + past
  /// Or "bf16", "fp16": what is stored so is multiplied as it is, by a library.
  const char *compute = "fp32";
  /// Rows may see no key: their results are zeros. A library that does not say so is told.
  int64_t guarded = 0;
  int64_t heads = 1;
  /// Of queries, keys and values so many are in one tensor, heads behind heads: 0, 2 or 3. Calls
  /// point to it as often; of its gradient there is one pointer.
  int64_t joined = 0;
  int64_t key = 0; ///< of the random numbers
  int64_t keyHeads = 1;
  int64_t keyHeadsTogether = 0; ///< and how many heads of keys, with all that they serve
  int64_t keys = 1;
  Dimensions maskStrides{}; ///< by batch, head, query, key
  int64_t masks = 0;        ///< that samples take in turn; 0: each has its own, or all have one
  const char *name = "";
  int64_t past = 0;
  int64_t queries = 1;
  double ratio = 0; ///< of shares that are dropped
  /// For each result pointer of a call, what it takes: of a gradient dq, dk, dv or the mask's
  /// gradient; of a library's attention the result or the logarithms of its rows' sums.
  Dimensions results{};
  /// For queries, keys, values and results: 0 for [batch, heads, rows, width], 1 for
  /// [batch, rows, heads, width], 2 for [rows, batch, heads, width].
  Dimensions rowsFirst{};
  int64_t samples = 1; ///< that the heads of the batch are of, which have random numbers each
  double scale = 1;
  int64_t valueWidth = 1;
  int64_t width = 1;

  constexpr int64_t headsOfSample() const { return batch * heads / samples; }
  constexpr bool makesMaskGradient() const {
    return std::find(results.begin(), results.end(), 3) != results.end();
  }
  constexpr int64_t maskOf(int64_t sample) const { return masks ? sample % masks : sample; }
  /// How many gradients of masks there are: samples that share a mask have one together.
  constexpr int64_t maskGradients() const {
    return maskStrides[0] == 0 ? 1 : masks ? masks : batch;
  }
  constexpr int64_t maskGradientElements() const {
    return maskGradients() * heads * queries * keys;
  }
  constexpr int64_t visible(int64_t query) const {
    return causal ? std::min(keys, query + 1 + past) : keys;
  }
};

/// How many tensors hold queries, keys and values.
constexpr int64_t attentionTensors(int64_t joined) { return joined == 0 ? 3 : joined == 2 ? 2 : 1; }

/// Of tensors that are joined there is one gradient's pointer.
template <class Pointer>
constexpr void shareJoined(const AttentionFields &f, const Pointer &dq, Pointer &dk, Pointer &dv) {
  if (f.joined == 3)
    dk = dq;
  if (f.joined != 0)
    dv = dk;
}

/// Where the rows of a head of queries (0), keys, values or results (3) lie.
struct AttentionRows {
  int64_t heads, rows, width;
  int64_t across, before; ///< heads of the tensor, and those before this operand's
  int64_t batch, rowsFirst;

  constexpr AttentionRows(const AttentionFields &f, int operand)
      : heads(operand == 1 || operand == 2 ? f.keyHeads : f.heads),
        rows(operand == 1 || operand == 2 ? f.keys : f.queries),
        width(operand < 2 ? f.width : f.valueWidth), across(heads), before(0), batch(f.batch),
        rowsFirst(f.rowsFirst[operand]) {
    if (operand == 3 || f.joined < 3 - operand)
      return;
    const int64_t ofQueries = f.joined == 3 ? f.heads : 0;
    across = ofQueries + 2 * f.keyHeads;
    before = operand == 0 ? 0 : ofQueries + (operand - 1) * f.keyHeads;
  }

  constexpr int64_t stride() const {
    return rowsFirst == 0 ? width : rowsFirst == 1 ? across * width : batch * across * width;
  }
  constexpr int64_t headStride() const { return rowsFirst == 0 ? rows * width : width; }
  constexpr int64_t sampleStride() const { return across * width * (rowsFirst == 2 ? 1 : rows); }
  constexpr int64_t first(int64_t b, int64_t head) const {
    return b * sampleStride() + (before + head) * headStride();
  }
};

/// The mask that stands for one of booleans, for a past, and for some that samples take in turn:
/// numbers that are added to scores, repeated along dimensions of size 1.
struct AddedMask {
  int64_t sizes[4]; ///< by batch, head, query, key

  constexpr explicit AddedMask(const AttentionFields &f)
      : sizes{f.batch, f.heads, f.queries, f.keys} {
    for (size_t d = 0; d < 4; ++d)
      if (!(hidesKeys(f) && d > 1) && (f.maskStrides.empty() || f.maskStrides[d] == 0))
        sizes[d] = 1;
  }
  static constexpr bool hidesKeys(const AttentionFields &f) { return f.causal && f.past != 0; }
  static constexpr bool isNeeded(const AttentionFields &f) {
    return f.boolean || hidesKeys(f) || f.masks != 0;
  }
  constexpr int64_t elements() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
  constexpr Dimensions strides() const {
    Dimensions strides = {0, 0, 0, 0};
    int64_t step = 1;
    for (size_t d = 4; d-- > 0; step *= sizes[d])
      strides[d] = sizes[d] == 1 ? 0 : step;
    return strides;
  }
};

/// What the gradient of an attention reads.
struct AttentionOperands {
  const float *dy, *q, *k, *v, *y, *logSums;
  const void *mask;
  const int64_t *random;
};

/// What CPU threads work in, in floats.
struct AttentionBlocks {
  static constexpr int64_t kPanel = 64; ///< packed operands are padded to as many columns

  static constexpr int64_t padded(int64_t columns) {
    return (columns + kPanel - 1) / kPanel * kPanel;
  }
  /// Queries whose scores are there at once: few enough to stay in a core's cache.
  static constexpr int64_t rows(const AttentionFields &f) {
    return std::min<int64_t>(f.queries, f.keys <= 1024 ? 48 : 24);
  }
  /// From one row of scores to the next: rows of a power of two would share few cache lines.
  static constexpr int64_t stride(const AttentionFields &f) { return padded(f.keys) + 16; }
  static constexpr int64_t forward(const AttentionFields &f) {
    return rows(f) * stride(f) + padded(f.keys) * f.width + f.keys * padded(f.valueWidth);
  }
  static constexpr int64_t backward(const AttentionFields &f) {
    return 2 * rows(f) * stride(f) + padded(f.keys) * (f.width + f.valueWidth) +
           f.keys * padded(f.width) + rows(f) * (padded(f.width) + padded(f.valueWidth));
  }
};

} // namespace pdc::runtime
