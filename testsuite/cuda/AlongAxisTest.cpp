#include "runtime/cuda/Team.h"
#include "testsuite/cuda/CudaCase.h"
#include "testsuite/kernels/EitherDevice.h"

#include <gtest/gtest.h>

/// Kernels that walk along an axis, on the host's threads as those of UnitTest.cpp.
namespace pdc {
namespace {

TEST(CudaKernels, MaximaProductsAndSums) {
  for (const char *op : {"ReduceMax", "ReduceProd"})
    for (std::vector<int64_t> axes : {std::vector<int64_t>{0}, {1, 3}, {0, 1, 2, 3}})
      expectReference([&](UnitCase &u) {
        UnitValue x = u.operand({2, 3, 4, 5}, 0.5, 1.5);
        u.node(op, {x, u.constant(Tensor::vector(axes))});
      });
  for (int64_t reverse : {0, 1})
    for (int64_t axis : {0, -1})
      expectReference([&](UnitCase &u) {
        UnitValue x = u.operand({4, 3, 50});
        u.node("CumSum", {x, u.constant(Tensor::scalar(ElementType::i64, axis))},
               {{"reverse", reverse}, {"exclusive", reverse}});
      });
}

TEST(CudaKernels, UniformRandom) { expectUniformRandom<CudaCase>(); }

TEST(CudaKernels, AlongAnAxis) { expectAlongAnAxis<CudaCase>(); }

TEST(CudaKernels, MovementOfManyDimensions) {
  expectReference([](UnitCase &u) { // no two dimensions become one
    UnitValue x = u.operand({2, 2, 2, 3, 2, 2, 2, 2, 2, 2, 2});
    u.node("Transpose", {x}, {{"perm", std::vector<int64_t>{10, 8, 6, 4, 2, 0, 9, 7, 5, 3, 1}}});
  });
}

/// Few rows are reduced by many threads each, however they lie.
TEST(CudaTeams, FillTheDevice) {
  auto threads = [](int64_t rows, int64_t size, int64_t apart) {
    return runtime::cuda::TeamShape::of(rows, size, apart).threads;
  };
  EXPECT_EQ(threads(64, 1000000, 64), 256);
  EXPECT_EQ(threads(64, 1000000, 1), 256);
  EXPECT_EQ(threads(2 * 1024, 21, 1024), 32);
  EXPECT_EQ(threads(132 * 1024, 21, 1024), 1);
  EXPECT_EQ(threads(132 * 1024, 2000, 1024), 1);
  EXPECT_EQ(threads(132 * 1024, 21, 1), 32);
}

} // namespace
} // namespace pdc
