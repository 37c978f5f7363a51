#pragma once

#include <algorithm>
#include <cstdint>

/// How much workspace the kernels take: asked by the compiler, kept by the kernels.
namespace pdc::runtime::cuda {

/// Into how many chunks of rows the sums over the columns of a matrix are cut, or those of each of
/// several samples: enough blocks for a GPU of 132 processors, each of which runs eight, at least
/// 64 rows each.
constexpr int64_t columnChunks(int64_t rows, int64_t columns, int64_t samples = 1) {
  const int64_t groups = std::max<int64_t>(1, (columns + 127) / 128 * samples);
  const int64_t wanted = (8 * 132 + groups - 1) / groups, most = (rows + 63) / 64;
  return std::max<int64_t>(1, std::min(wanted, most));
}

/// Of `count` sums per column.
constexpr int64_t columnSumBytes(int64_t rows, int64_t columns, int64_t count) {
  return columnChunks(rows, columns) * columns * count * 4;
}

/// Two sums per column of a normalised image, then two numbers for each that are made of them.
constexpr int64_t normalisationBytes(int64_t rows, int64_t columns) {
  return columnSumBytes(rows, columns, 2) + 2 * 4 * columns;
}

/// Two sums per channel of each sample, and two numbers per group that are made of them.
constexpr int64_t groupNormalisationBytes(int64_t samples, int64_t pixels, int64_t channels,
                                          int64_t groups) {
  const int64_t chunks = samples * columnChunks(pixels, channels, samples);
  return 2 * 4 * (chunks * channels + samples * groups);
}

/// The gradient of a gather sorts its indices in tiles of so many, a block each, and adds up slices
/// in segments of so many, a thread for each column.
inline constexpr int64_t kPickTile = 2048, kPickSegment = 64;

constexpr int64_t pickTiles(int64_t count) { return (count + kPickTile - 1) / kPickTile; }
/// Rows that segments of `count` may share with others, two each; none where there is one segment.
constexpr int64_t openPicks(int64_t count) {
  return count > kPickSegment ? 2 * ((count + kPickSegment - 1) / kPickSegment) : 0;
}
/// Rows and slices as they are and as a digit sorts them, how often each digit is there, and the
/// sums of shared rows, which are added up in segments, too.
constexpr int64_t gatherGradientBytes(int64_t outer, int64_t count, int64_t inner) {
  int64_t numbers = 4 * count + 256 * (pickTiles(count) + 1);
  for (int64_t open = openPicks(count); open > 0; open = openPicks(open))
    numbers += open * (1 + outer * inner);
  return 4 * numbers;
}

/// Blocks that each sum a part of a long array, one number in f64 apiece.
inline constexpr int64_t kPartialSums = 528;

/// Into how many parts, a block each, every one of so few sums is cut that a block for each would
/// leave most of a GPU idle: 4096 elements at least.
constexpr int64_t reductionParts(int64_t results, int64_t summed) {
  const int64_t wanted = (kPartialSums + results - 1) / std::max<int64_t>(results, 1);
  return std::max<int64_t>(1, std::min(wanted, summed / 4096));
}

/// None where each sum is that of one team.
constexpr int64_t reductionBytes(int64_t results, int64_t summed) {
  const int64_t parts = reductionParts(results, summed);
  return parts > 1 ? results * parts * 8 : 0;
}

/// Where cuBLASLt and cuDNN want theirs to begin.
inline constexpr int64_t kWorkspaceAlignment = 256;

/// What cuDNN's fused attention takes beside its operands, asked of 9.19 for sm_90: a page; for the
/// gradients, whose sums have a fixed order, those of the scores of 16 bits, of the keys and values
/// of every head where heads share them, and (asked for by the runtime) a sum for each row.
constexpr int64_t attentionBytes(bool isGradient, int64_t batch, int64_t heads, int64_t keyHeads,
                                 int64_t queries, int64_t keys, int64_t width) {
  if (!isGradient)
    return 4096;
  const int64_t scores = (queries + 127) / 128 * 128 * ((keys + 127) / 128 * 128);
  const int64_t shared = keyHeads == heads ? 0 : 2 * keys * width;
  return batch * heads * (2 * (scores + shared) + 4 * queries) + 4096;
}

/// A gradient of more is computed in parts of at most this, whose scores still fill a GPU.
inline constexpr int64_t kAttentionPartBytes = int64_t(256) << 20;
/// Where the smallest part takes more, the kernel that holds no scores takes its place.
inline constexpr int64_t kMostAttentionBytes = int64_t(1) << 30;

/// The most products of one call of cuBLASLt's, and samples of one of cuDNN's attention: some of
/// their kernels number them by a grid's second or third dimension (pytorch#181235,
/// tensorflow#44175), and not all are refused before they run.
inline constexpr int64_t kMostBatch = 65535;

constexpr int64_t largestBatch(int64_t samples) {
  int64_t calls = (samples + kMostBatch - 1) / kMostBatch;
  while (samples % calls != 0)
    ++calls;
  return samples / calls;
}

/// What cuBLASLt may take for a product; more than its kernels for Hopper ask for (32 MiB).
inline constexpr int64_t kMatrixWorkspaceBytes = int64_t(32) << 20;

/// Sums of columns that it makes with a product, before they are added to others.
constexpr int64_t fusedSumBytes(int64_t columns) {
  return (4 * columns + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

} // namespace pdc::runtime::cuda
