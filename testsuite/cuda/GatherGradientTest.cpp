#include "runtime/Error.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Workspace.h"
#include "testsuite/kernels/KernelMakers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

/// The sums of what indices pick, within the workspace that is set aside for them.
namespace pdc {
namespace {

using runtime::GatherFields;

GatherFields fieldsOf(int64_t size, size_t count, int64_t outer, int64_t inner) {
  GatherFields f;
  f.outer = outer, f.size = size, f.inner = inner, f.count = static_cast<int64_t>(count);
  return f;
}

/// Of a dx that holds `before`, where it is added to.
template <class Index, class T>
std::vector<float> gradientOf(const GatherFields &f, const std::vector<Index> &indices,
                              const std::vector<T> &dy, std::optional<float> before = {}) {
  std::vector<float> dx(static_cast<size_t>(f.outer * f.size * f.inner), before.value_or(9));
  const auto bytes =
      static_cast<size_t>(runtime::cuda::gatherGradientBytes(f.outer, f.count, f.inner));
  constexpr uint64_t untouched = 0x123456789abcdef;
  std::vector<uint64_t> workspace(bytes / 8 + 9, untouched);
  runtime::Run run = started({});
  run.scratchBase = reinterpret_cast<std::byte *>(workspace.data());
  runtime::cuda::GatherGradient({1, 0}, f)(run, indices.data(), dy.data(), dx.data(),
                                           before.has_value());
  finish();
  for (size_t i = (bytes + 7) / 8; i < workspace.size(); ++i)
    EXPECT_EQ(workspace[i], untouched) << i << " of " << bytes << " bytes";
  return dx;
}

/// By the definition.
template <class Index, class T>
std::vector<double> expectedOf(const GatherFields &f, const std::vector<Index> &indices,
                               const std::vector<T> &dy, double before) {
  std::vector<double> dx(static_cast<size_t>(f.outer * f.size * f.inner), before);
  for (int64_t o = 0; o < f.outer; ++o)
    for (int64_t k = 0; k < f.count; ++k) {
      const int64_t index = indices[static_cast<size_t>(k)];
      const int64_t row = index < 0 ? index + f.size : index;
      for (int64_t i = 0; i < f.inner && row >= 0 && row < f.size; ++i)
        dx[static_cast<size_t>((o * f.size + row) * f.inner + i)] +=
            static_cast<float>(dy[static_cast<size_t>((o * f.count + k) * f.inner + i)]);
    }
  return dx;
}

/// How often each row was picked, from gradients of one. Where an index was outside, the first sum
/// is no number.
void expectPicks(int64_t size, const std::vector<int64_t> &indices) {
  const bool areInside =
      std::ranges::all_of(indices, [&](int64_t index) { return index >= -size && index < size; });
  const GatherFields f = fieldsOf(size, indices.size(), 2, 5);
  const std::vector<float> dy(static_cast<size_t>(f.outer * f.count * f.inner), 1);
  for (const std::optional<float> before : {std::optional<float>(), std::optional<float>(3)}) {
    const std::vector<double> expected = expectedOf(f, indices, dy, before.value_or(0));
    std::vector<float> found = gradientOf(f, indices, dy, before);
    EXPECT_EQ(std::isnan(found[0]), !areInside);
    found[0] = areInside ? found[0] : static_cast<float>(expected[0]);
    EXPECT_EQ(found, std::vector<float>(expected.begin(), expected.end()))
        << indices.size() << " indices of " << size << " rows";
  }
}

/// Around the ends of segments, of segments of their sums, and of tiles.
TEST(CudaGatherGradient, OfOneRow) {
  for (size_t count : {1, 63, 64, 65, 127, 128, 129, 2047, 2048, 2049, 4097})
    expectPicks(6, std::vector<int64_t>(count, 4));
}

/// Rows that end where segments do, before and behind.
TEST(CudaGatherGradient, OfSeveralRows) {
  for (int64_t each : {1, 2, 63, 64, 65, 191, 192, 193}) {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < 6 * each; ++i)
      indices.push_back((5 * i + 3) % 6);
    expectPicks(6, indices);
    indices.resize(indices.size() - 1);
    expectPicks(6, indices);
  }
}

/// Rows that differ in one digit, in another, and in both.
TEST(CudaGatherGradient, OfManyRows) {
  std::mt19937 random(7);
  for (int64_t size : {255, 256, 257, 65535, 65536, 70001}) {
    std::vector<int64_t> indices = {0, size - 1, -1, -size};
    for (int i = 0; i < 300; ++i)
      indices.push_back(static_cast<int64_t>(random() % static_cast<uint32_t>(size)));
    for (int64_t row : {1, 256, 257, 65536})
      if (row < size)
        indices.insert(indices.end(), {row, row});
    expectPicks(size, indices);
  }
}

/// Indices outside the table pick nothing, however many there are, but are seen.
TEST(CudaGatherGradient, OfIndicesOutsideTheTable) {
  for (size_t count : {1, 31, 64, 300})
    for (int64_t outside : {6, -7}) {
      std::vector<int64_t> indices(count, outside);
      expectPicks(6, indices);
      indices.back() = -1;
      expectPicks(6, indices);
    }
}

/// The same bits from one run to the next, though blocks and threads come in another order, and
/// little error where one row takes half of all.
TEST(CudaGatherGradient, RepeatsItsBits) {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> number(-1, 1);
  for (int64_t inner : {1, 37}) {
    const GatherFields f = fieldsOf(300, 5000, 1, inner);
    std::vector<int32_t> indices;
    std::vector<runtime::BFloat16> dy;
    for (int64_t k = 0; k < f.count; ++k)
      indices.push_back(k % 2 ? 17 : static_cast<int32_t>(random() % 300));
    for (int64_t i = 0; i < f.count * inner; ++i)
      dy.push_back(runtime::BFloat16(number(random)));
    const std::vector<float> found = gradientOf(f, indices, dy);
    const std::vector<double> expected = expectedOf(f, indices, dy, 0);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 2e-5) << i;
    for (int again = 0; again < 3; ++again)
      EXPECT_EQ(gradientOf(f, indices, dy), found);
  }
}

TEST(CudaGatherGradient, RefusesWhat32BitsDoNotCount) {
  const int64_t most = int64_t(1) << 32;
  const std::vector<int64_t> indices = {0};
  const std::vector<float> dy = {0};
  float dx = 0;
  runtime::Run run = started({});
  GatherFields f = fieldsOf(most, 1, 1, 1);
  EXPECT_THROW(runtime::cuda::GatherGradient({1, 0}, f)(run, indices.data(), dy.data(), &dx, true),
               runtime::Error);
}

} // namespace
} // namespace pdc
