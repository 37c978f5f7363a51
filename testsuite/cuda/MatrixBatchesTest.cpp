#include "runtime/cuda/MatrixBatches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace pdc::runtime::cuda {
namespace {

/// Where the operands and the result of each product begin.
using Starts = std::vector<std::array<int64_t, 3>>;

MatrixProductFields product(Dimensions a, Dimensions b, Dimensions y) {
  MatrixProductFields f;
  f.a = a, f.b = b, f.output = y;
  return f;
}

Starts startsOf(const MatrixBatches &batches) {
  Starts starts;
  for (const MatrixBatches::Start &start : batches.starts)
    for (int64_t i = 0; i < batches.count; ++i)
      starts.push_back({start.a + i * batches.strideA, start.b + i * batches.strideB,
                        start.y + i * batches.strideY});
  std::ranges::sort(starts);
  return starts;
}

/// Few calls of the library, none of more products than it takes.
TEST(MatrixBatches, AreLarge) {
  struct Asked {
    MatrixProductFields fields;
    size_t calls;
    int64_t count;
  };
  const Asked asked[] = {
      {product({65535, 2, 3}, {65535, 3, 2}, {65535, 2, 2}), 1, 65535},
      {product({65536, 2, 3}, {65536, 3, 2}, {65536, 2, 2}), 2, 32768},
      {product({70000, 2, 3}, {70000, 3, 2}, {70000, 2, 2}), 2, 35000},
      {product({3 * 65535, 2, 3}, {3 * 65535, 3, 2}, {3 * 65535, 2, 2}), 3, 65535},
      // A weight for each of 8 heads.
      {product({4096, 8, 2, 3}, {8, 3, 2}, {4096, 8, 2, 2}), 8, 4096},
      {product({5, 4096, 2, 3}, {5, 1, 3, 2}, {5, 4096, 2, 2}), 1, 5}, // of tall products
      {product({5, 7, 2, 3}, {7, 3, 2}, {5, 7, 2, 2}), 5, 7},
  };
  for (const auto &[f, calls, count] : asked) {
    const MatrixBatches batches(f);
    EXPECT_EQ(batches.starts.size(), calls);
    EXPECT_EQ(batches.count, count);
  }
}

/// Those of an outer loop over the leading dimensions.
TEST(MatrixBatches, AreAllProducts) {
  for (bool first : {false, true}) {
    MatrixProductFields f = product({6, 5, 4, 3}, {1, 5, 3, 2}, {6, 5, 4, 2});
    if (first) // repeated along the second dimension
      f.b = {6, 1, 3, 2}, f.transA = 1, f.a = {6, 5, 3, 4};
    Starts expected;
    for (int64_t i = 0; i < 6; ++i)
      for (int64_t j = 0; j < 5; ++j)
        expected.push_back({(i * 5 + j) * 12, (first ? i : j) * 6, (i * 5 + j) * 8});
    std::ranges::sort(expected);
    EXPECT_EQ(startsOf(MatrixBatches(f)), expected);
  }
}

} // namespace
} // namespace pdc::runtime::cuda
