#include "runtime/cuda/Kernels.h"
#include "testsuite/cuda/CudaCase.h"
#include "testsuite/kernels/KernelMakers.h"

#include <gtest/gtest.h>

namespace pdc {

/// Rows that many values are named for, and rows that none is.
TEST(CudaScatterMaximum, IsTheReferences) {
  for (int64_t rows : {1, 4, 500})
    expectReference([&](UnitCase &u) {
      UnitValue shape = u.constant(Tensor::vector({3, rows, 7}));
      UnitValue indices = u.integers({300}, -rows, rows - 1), x = u.operand({3, 300, 7});
      u.node("ScatterMax", {shape, indices, x}, {{"axis", int64_t(1)}});
    });
}

static std::vector<float> largest(std::vector<float> x, std::vector<int64_t> indices,
                                  int64_t rows) {
  const runtime::GatherFields fields{int64_t(indices.size()), 1, 1, rows};
  std::vector<float> y(size_t(rows), 7);
  const runtime::Run run = started({});
  runtime::cuda::ScatterMaximum({1, 0}, fields)(run, indices.data(), x.data(), y.data());
  finish();
  return y;
}

TEST(CudaScatterMaximum, OrdersAllNumbers) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = NAN;
  EXPECT_EQ(largest({-1, -0.0f, -2}, {0, 0, 0}, 1), std::vector<float>{0});
  EXPECT_EQ(largest({-3, -2, 1e-40f, -infinity}, {0, 0, 1, 2}, 4),
            (std::vector<float>{-2, 1e-40f, -infinity, -infinity}));
  EXPECT_EQ(largest({infinity, 3, -5}, {-1, 0, 0}, 2), (std::vector<float>{3, infinity}));
  for (std::vector<float> values : {std::vector<float>{nan, -1, 5}, {5, -nan, -1}, {-1, 5, nan}})
    EXPECT_TRUE(std::isnan(largest(values, {0, 0, 0}, 1)[0]));
  EXPECT_TRUE(std::isnan(largest({1}, {2}, 2)[0])) << "no row has this number";
}

} // namespace pdc
