#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Workspace.h"
#include "testsuite/kernels/KernelMakers.h"

#include <gtest/gtest.h>

/// The sums of what indices pick, within the workspace that is set aside for them.
namespace pdc {
namespace {

constexpr int64_t kRows = 6, kInner = 5, kOuter = 2;

/// How often each row was picked, from gradients of one: [outer][row][inner].
std::vector<float> picksOf(const std::vector<int64_t> &indices) {
  runtime::GatherFields f;
  f.outer = kOuter, f.size = kRows, f.inner = kInner, f.count = int64_t(indices.size());
  const std::vector<float> dy(size_t(kOuter * f.count * kInner), 1);
  std::vector<float> dx(size_t(kOuter * kRows * kInner), 9);
  const size_t bytes = size_t(runtime::cuda::gatherGradientBytes(kOuter, f.count, kInner));
  constexpr uint64_t untouched = 0x123456789abcdef;
  std::vector<uint64_t> workspace(bytes / 8 + 9, untouched);
  runtime::Run run = started({});
  run.scratchBase = reinterpret_cast<std::byte *>(workspace.data());
  runtime::cuda::GatherGradient({1, 0}, f)(run, indices.data(), dy.data(), dx.data(), false);
  finish();
  for (size_t i = (bytes + 7) / 8; i < workspace.size(); ++i)
    EXPECT_EQ(workspace[i], untouched) << i << " of " << bytes << " bytes";
  return dx;
}

void expectPicks(const std::vector<int64_t> &indices) {
  std::vector<float> expected(size_t(kOuter * kRows * kInner));
  for (int64_t index : indices)
    for (int64_t o = 0; o < kOuter; ++o)
      for (int64_t i = 0; i < kInner; ++i)
        if (const int64_t row = index < 0 ? index + kRows : index; row >= 0 && row < kRows)
          ++expected[size_t((o * kRows + row) * kInner + i)];
  EXPECT_EQ(picksOf(indices), expected) << indices.size() << " indices";
}

/// Around what makes a row one of those that have a block of their own, and the end of a segment.
TEST(CudaGatherGradient, OfOneRow) {
  for (size_t count : {1, 31, 32, 33, 255, 256, 257, 287, 288, 600})
    expectPicks(std::vector<int64_t>(count, 4));
}

/// As many rows with blocks of their own as there can be, and one that lacks a pick.
TEST(CudaGatherGradient, OfSeveralRows) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < 6 * 32 + 31; ++i)
    indices.push_back(i % 6);
  expectPicks(indices);
  indices.resize(6 * 32 - 1);
  expectPicks(indices);
}

/// Indices outside the table pick nothing, however many there are.
TEST(CudaGatherGradient, OfIndicesOutsideTheTable) {
  for (size_t count : {1, 31, 32, 300})
    for (int64_t outside : {kRows, -kRows - 1}) {
      std::vector<int64_t> indices(count, outside);
      expectPicks(indices);
      indices.back() = -1;
      expectPicks(indices);
    }
}

/// A row that so few indices pick needs no block of its own.
TEST(CudaGatherGradient, OfFewIndicesTakesNoWorkspace) {
  EXPECT_EQ(runtime::cuda::gatherGradientBytes(1, 1, 1 << 20), 0);
  EXPECT_EQ(runtime::cuda::gatherGradientBytes(1, 31, 1 << 20), 0);
  EXPECT_EQ(runtime::cuda::gatherGradientBytes(1, 32, 1 << 20), 8 + (4 << 20));
  EXPECT_EQ(runtime::cuda::gatherGradientBytes(3, 256 + 63, 10), 9 * (8 + 3 * 10 * 4));
}

} // namespace
} // namespace pdc
