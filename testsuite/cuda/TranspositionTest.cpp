#include "runtime/cuda/Transposition.h"
#include "testsuite/cuda/CudaCase.h"
#include "testsuite/kernels/KernelMakers.h"

#include <gtest/gtest.h>

/// Matrices that fill tiles or leave them open, and those of few rows or columns, wherever they
/// begin.
namespace pdc {
namespace {

template <class T> struct Transposition : ::testing::Test {
  static constexpr int64_t kMatrices = 3;

  /// x and y begin so many elements behind a multiple of 16 bytes.
  static void expectTurned(int64_t rows, int64_t columns, int64_t xBehind, int64_t yBehind) {
    const int64_t count = kMatrices * rows * columns;
    std::vector<T> x(size_t(xBehind + count)), y(size_t(yBehind + count + 1), T(7)), expected = y;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t matrix = i / (rows * columns), row = i / columns % rows, column = i % columns;
      x[size_t(xBehind + i)] = T(i * 37 + i / 251);
      expected[size_t(yBehind + (matrix * columns + column) * rows + row)] = x[size_t(xBehind + i)];
    }
    runtime::cuda::transpose(started({}), kMatrices, rows, columns, x.data() + xBehind,
                             y.data() + yBehind);
    finish();
    EXPECT_TRUE(y == expected) << rows << " x " << columns << " of " << sizeof(T) << " bytes, "
                               << xBehind << " and " << yBehind << " behind";
  }
  static void expectBothWays(int64_t rows, int64_t columns) {
    for (auto [x, y] : {std::pair(0, 0), {0, 1}, {1, 0}, {1, 1}}) {
      expectTurned(rows, columns, x, y);
      expectTurned(columns, rows, x, y);
    }
  }
};
using AllSizes = ::testing::Types<uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(Transposition, AllSizes);

TYPED_TEST(Transposition, OfTiles) {
  for (int64_t rows : {8, 31, 64, 66})
    for (int64_t columns : {9, 32, 49, 96})
      this->expectBothWays(rows, columns);
}

TYPED_TEST(Transposition, OfFewRows) {
  for (int64_t few : {1, 2, 3, 4, 5, 6, 7, 8})
    for (int64_t length : {127, 128, 513, 1024, 1032, 2050})
      this->expectBothWays(few, length);
}

/// Of matrices by tiles, or by their few rows or columns, of others element by element.
TEST(CudaKernels, Transpositions) {
  const std::pair<std::vector<int64_t>, std::vector<int64_t>> cases[] = {
      {{5, 3, 4}, {2, 0, 1}},         {{37, 70}, {1, 0}},     {{3, 70, 37}, {0, 2, 1}},
      {{2, 5, 3, 130}, {0, 1, 3, 2}}, {{4, 3, 5}, {0, 2, 1}}, {{2, 3, 40, 8}, {0, 2, 1, 3}},
      {{5, 6, 7, 8}, {3, 1, 0, 2}}};
  for (const auto &[shape, order] : cases)
    expectReference([&](UnitCase &u) {
      u.node("Transpose", {u.operand(shape)}, {{"perm", order}});
    });
}

TEST(CudaKernels, Layouts) {
  const std::vector<int64_t> shapes[] = {
      {3, 37, 5, 9}, {3, 3, 12, 12}, {3, 3, 2, 2}, {1, 300, 1, 4}};
  for (std::string to : {"", "acdb"})
    for (const std::vector<int64_t> &shape : shapes)
      expectReference([&](UnitCase &u) {
        UnitValue x = u.operand(shape, -1, 1, to.empty() ? "acdb" : "");
        u.node("Reorder", {x}, {{"layout", to}});
      });
}

} // namespace
} // namespace pdc
