#include "testsuite/operators/GradientCheck.h"

namespace pdc::test {

using Shape = std::vector<int64_t>;

TEST(TransformerGradient, LayerNormalization) {
  Draw draw;
  struct Form {
    Shape x, scale;
    int64_t axis;
  };
  const Form forms[] = {{{2, 3, 4}, {4}, -1}, {{2, 3, 4}, {3, 4}, 1}, {{2, 3, 4}, {2, 3, 4}, 0},
                        {{5, 6}, {6}, 1},     {{2, 3, 4}, {1, 4}, 1}, {{3, 1, 7}, {1}, -1}};
  for (const Form &form : forms) {
    Attributes attributes = {{"axis", form.axis}, {"epsilon", 1e-3}};
    checkGradient({"LayerNormalization",
                   attributes,
                   {draw.reals(form.x), draw.reals(form.scale, 0.5, 2), draw.reals(form.scale)},
                   {0, 1, 2},
                   3});
    checkGradient({"LayerNormalization",
                   attributes,
                   {draw.reals(form.x), draw.reals(form.scale, 0.5, 2)},
                   {0, 1},
                   3});
    checkGradient({"RMSNormalization",
                   attributes,
                   {draw.reals(form.x), draw.reals(form.scale, 0.5, 2)},
                   {0, 1},
                   2});
  }
}

TEST(TransformerGradient, LayerNormalizationRefuses) {
  Draw draw;
  auto refuses = [&](Shape x, Shape scale, int64_t axis) {
    Case test{"LayerNormalization", {{"axis", axis}}, {draw.reals(x), draw.reals(scale)}, {}, 3};
    EXPECT_THROW(run(test), Error);
  };
  refuses({2, 3}, {3}, 2);
  refuses({2, 3}, {2}, 1);
  refuses({2, 3}, {2, 3}, 1);
  refuses({2, 0}, {0}, 1);
}

/// The check's gradient arrives at the first part only: the others leave zeros.
TEST(TransformerGradient, Split) {
  Draw draw;
  for (int64_t axis : {0, 1, -1}) {
    Shape shape = {4, 6, 2};
    int64_t size = shape[axis < 0 ? axis + 3 : axis];
    checkGradient(
        {"Split", {{"axis", axis}}, {draw.reals(shape), Tensor::vector({size - 1, 1})}, {0}, 2});
  }
}

} // namespace pdc::test
