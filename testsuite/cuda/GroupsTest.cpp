#include "testsuite/cuda/CudaCase.h"
#include "testsuite/kernels/EitherDevice.h"

#include <gtest/gtest.h>

namespace pdc {

TEST(CudaKernels, GroupNormalization) {
  expectGroupNormalization<CudaCase>();
  expectGroupNormalizationGradient<CudaCase>();
}

/// A convolution's image is read as it lies.
TEST(CudaKernels, GroupsOfConvolutions) {
  CudaCase unit;
  unit.node("GroupNormalization", {unit.operand({2, 6, 3, 4}, -1, 1, "acdb")},
            {{"num_groups", int64_t(3)}}, 3);
  unit.check();
  EXPECT_EQ(unit.choice.inputLayouts[0], "acdb");
  EXPECT_EQ(unit.choice.outputLayouts[0], "acdb");
}

} // namespace pdc
