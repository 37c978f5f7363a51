#include "runtime/cuda/Kernels.h"
#include "testsuite/kernels/KernelMakers.h"

#include <gtest/gtest.h>

#include <numeric>

/// Parts of rows of every width, which begin at multiples of as many bytes as their widths have in
/// common.
namespace pdc {
namespace {

constexpr int64_t kCopiedRows = 5;

/// Bytes that differ from those of other rows and parts.
struct RowsOfPart {
  int64_t width;
  alignas(64) std::byte bytes[kCopiedRows * 64];
  RowsOfPart(int64_t width, int number) : width(width) {
    for (int64_t i = 0; i < kCopiedRows * width; ++i)
      bytes[i] = std::byte(i * 7 + number);
  }
};

TEST(CopiedRows, AreJoinedAndSplit) {
  for (const std::vector<int64_t> &widths : std::vector<std::vector<int64_t>>{
           {16, 48}, {8, 24}, {4, 12}, {2, 6}, {1, 3}, {5, 11}, {16, 1}, {32, 0}}) {
    const RowsOfPart first(widths[0], 1), second(widths[1], 2);
    RowsOfPart again(widths[0], 3), other(widths[1], 3);
    const int64_t width = first.width + second.width;
    alignas(64) std::byte whole[kCopiedRows * 64];
    runtime::ConcatFields joined;
    joined.blockBytes = widths, joined.outer = kCopiedRows;
    runtime::SplitFields split;
    split.blockBytes = widths, split.outer = kCopiedRows, split.results = {1, 0};
    const runtime::Run run = started({});
    runtime::cuda::Concat({1, 0}, joined)(run, first.bytes, second.bytes, whole);
    runtime::cuda::Split({1, 0}, split)(run, whole, other.bytes, again.bytes);
    finish();
    for (int64_t row = 0; row < kCopiedRows; ++row)
      for (int64_t i = 0; i < width; ++i) {
        const bool isFirst = i < first.width;
        const RowsOfPart &from = isFirst ? first : second, &back = isFirst ? again : other;
        const int64_t at = row * from.width + (isFirst ? i : i - first.width);
        ASSERT_EQ(whole[row * width + i], from.bytes[at])
            << width << " bytes, " << row << ", " << i;
        ASSERT_EQ(back.bytes[at], from.bytes[at]) << width << " bytes, " << row << ", " << i;
      }
  }
}

/// More parts than a kernel takes as its parameters.
template <size_t... Number> void expectManyParts(std::index_sequence<Number...>) {
  constexpr size_t count = sizeof...(Number);
  std::vector<float> whole(2 * count), given(2 * count), back(2 * count);
  std::iota(given.begin(), given.end(), 1.0f);
  runtime::ConcatFields joined;
  runtime::SplitFields split;
  joined.outer = split.outer = 2;
  joined.blockBytes.assign(count, sizeof(float));
  split.blockBytes = joined.blockBytes;
  for (size_t i = 0; i < count; ++i)
    split.results.push_back(int64_t(i));
  const runtime::Run run = started({});
  runtime::cuda::Concat({1, 0}, joined)(run, &given[2 * Number]..., whole.data());
  runtime::cuda::Split({1, 0}, split)(run, whole.data(), &back[2 * Number]...);
  finish();
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(whole[i], given[2 * i]) << i << " of " << count;
    ASSERT_EQ(whole[count + i], given[2 * i + 1]) << i << " of " << count;
  }
  EXPECT_EQ(back, given);
}

TEST(CopiedRows, OfManyParts) {
  expectManyParts(std::make_index_sequence<16>());
  expectManyParts(std::make_index_sequence<17>());
  expectManyParts(std::make_index_sequence<1030>());
}

} // namespace
} // namespace pdc
