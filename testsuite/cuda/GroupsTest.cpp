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

TEST(CudaKernels, PartsOfImages) { expectPartsOfImages<CudaCase>("acdb", true); }

/// As rows of channels, from one layer to the next: no copy.
TEST(CudaKernels, PixelsAreReadAsTheyLie) {
  const Tensor shape = Tensor::vector({2, 6, 20});
  CudaCase image;
  image.node("Reshape", {image.operand({2, 6, 4, 5}, -1, 1, "acdb"), image.constant(shape)});
  const KernelChoice view = chooseKernel(image.view, image.options);
  EXPECT_EQ(view.inputLayouts[0], "acdb");
  EXPECT_EQ(view.outputLayouts[0], "acb");
  for (const int64_t transposes : {0, 1}) {
    CudaCase left, right;
    const std::vector<int64_t> pixels = {2, 6, 20}, others = {transposes ? 6 : 20, 3};
    left.node("FusedMatMul", {left.operand(pixels, -1, 1, "acb"), left.operand(others)},
              {{"transA", transposes}});
    left.check(1e-5);
    EXPECT_EQ(left.choice.inputLayouts[0], "acb");
    right.node("FusedMatMul",
               {right.operand({2, 5, transposes ? 20 : 6}), right.operand(pixels, -1, 1, "acb")},
               {{"transB", transposes}});
    right.check(1e-5);
    EXPECT_EQ(right.choice.inputLayouts[1], "acb");
  }
}

} // namespace pdc
