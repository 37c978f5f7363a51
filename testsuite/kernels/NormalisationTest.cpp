#include "testsuite/kernels/EitherDevice.h"

#include <gtest/gtest.h>

namespace pdc {

TEST(Kernels, BatchNormalization) {
  for (std::vector<int64_t> shape :
       {std::vector<int64_t>{4, 35, 5, 6}, {2, 16, 1, 1}, {8, 37}, {3, 20, 9}})
    for (bool relu : {false, true}) {
      UnitCase unit;
      unit.options.threads = 2;
      int64_t c = shape[1];
      UnitValue y = unit.node("BatchNormInternal",
                              {unit.operand(shape, 2, 5), unit.operand({c}, 0.5, 2),
                               unit.operand({c}), unit.operand({c}), unit.operand({c}, 0.5, 2)},
                              {{"epsilon", 1e-5}, {"momentum", 0.9}}, 5);
      UnitValue last = relu ? unit.node("Relu", {y}) : y;
      if (!relu)
        unit.result(y);
      for (int r = 1; r < 5; ++r)
        unit.result(UnitValue::node(y.index, r));
      if (relu)
        unit.result(last);
      unit.check(1e-5);
      UnitCase inference;
      UnitValue z =
          inference.node("BatchNormalization",
                         {inference.operand(shape), inference.operand({c}), inference.operand({c}),
                          inference.operand({c}), inference.operand({c}, 0.5, 2)},
                         {{"epsilon", 1e-5}});
      if (relu)
        inference.node("Relu", {z});
      inference.check();
    }
}

TEST(Kernels, BatchNormalizationGradient) {
  for (std::vector<int64_t> shape : {std::vector<int64_t>{4, 35, 5, 6}, {8, 37}})
    for (bool relu : {false, true}) {
      UnitCase unit;
      unit.options.threads = 2;
      int64_t c = shape[1];
      UnitValue dy = unit.operand(shape);
      if (relu)
        dy = unit.node("ReluGrad", {dy, unit.operand(shape)});
      UnitValue dx = unit.node("BatchNormalizationGrad",
                               {dy, unit.operand(shape), unit.operand({c}, 0.5, 2),
                                unit.operand({c}, -0.1, 0.1), unit.operand({c}, 1, 2)},
                               {}, 3);
      for (int r = 0; r < 3; ++r)
        unit.result(UnitValue::node(dx.index, r));
      unit.check(1e-5);
    }
}

/// Row-major and in channel blocks.
TEST(Kernels, GroupNormalization) {
  for (const char *layout : {"", "aBcd8b", "aBcd16b"}) {
    expectGroupNormalization<UnitCase>(layout);
    expectGroupNormalizationGradient<UnitCase>(layout);
  }
}

TEST(Kernels, RotateHalves) { expectRotations<UnitCase>(); }

TEST(Kernels, LocalResponse) {
  for (int64_t size : {5, 4, 1})
    for (double beta : {0.75, 0.6}) {
      Attributes attributes = {{"size", size}, {"alpha", 0.1}, {"beta", beta}, {"bias", 1.5}};
      UnitCase unit, gradient;
      unit.node("LRN", {unit.operand({2, 9, 4, 5})}, attributes);
      unit.check();
      UnitValue dy = gradient.operand({2, 9, 4, 5}), x = gradient.operand({2, 9, 4, 5});
      gradient.node("LRNGrad", {dy, x, gradient.operand({2, 9, 4, 5})}, attributes);
      gradient.check();
    }
}

TEST(Kernels, Dropout) {
  for (std::string layout : {"", "aBcd16b"}) {
    UnitCase unit;
    unit.node("Dropout",
              {unit.operand({3, 20, 4, 5}, -1, 1, layout), unit.integers({5}, 0, 1 << 30)},
              {{"ratio", 0.3}, {"key", int64_t(-77777777777)}});
    unit.check();
    EXPECT_EQ(unit.choice.inputLayouts[0], layout);
  }
}

/// Rows of tokens, or of heads, two of each sample, and what counts no samples.
TEST(Kernels, DropoutOfRows) {
  for (std::vector<int64_t> shape : {std::vector<int64_t>{6, 5, 7}, {4, 9}}) {
    UnitCase unit;
    unit.node("Dropout", {unit.operand(shape), unit.integers({5}, 0, 1 << 30)},
              {{"ratio", 0.3}, {"key", int64_t(5)}});
    unit.check();
  }
}

TEST(Kernels, UniformRandom) { expectUniformRandom<UnitCase>(); }

TEST(Kernels, Attention) { expectAttention<UnitCase>(); }

TEST(Kernels, RootMeanSquare) { expectRootMeanSquare<UnitCase>(); }

} // namespace pdc
