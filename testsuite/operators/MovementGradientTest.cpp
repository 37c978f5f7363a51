#include "testsuite/operators/GradientCheck.h"

namespace pdc::test {

TEST(Gradient, Views) {
  Draw draw;
  auto known = [](Shape values) { return Tensor::vector(values); };
  checkGradient({"Reshape", {}, {draw.reals({2, 6}), known({3, -1})}, {0}});
  checkGradient({"Reshape", {}, {draw.reals({2, 6}), known({0, 2, 3})}, {0}});
  checkGradient(unary("Flatten", draw.reals({2, 3, 4}), {{"axis", int64_t(2)}}));
  checkGradient(unary("Flatten", draw.reals({2, 3, 4}), {{"axis", int64_t(0)}}));
  checkGradient({"Squeeze", {}, {draw.reals({2, 1, 3}), known({1})}, {0}});
  checkGradient(unary("Squeeze", draw.reals({1, 2, 1, 3})));
  checkGradient({"Unsqueeze", {}, {draw.reals({2, 3}), known({0, -1})}, {0}});
  checkGradient(unary("Identity", draw.reals({2, 3})));
  checkGradient(unary("Reorder", draw.reals({2, 3})));
  checkGradient(unary("Cast", draw.reals({2, 3}), {{"to", int64_t(1)}}));
}

TEST(Gradient, Movement) {
  Draw draw;
  auto known = [](Shape values) { return Tensor::vector(values); };
  checkGradient(unary("Transpose", draw.reals({2, 3, 4}), {{"perm", Shape{2, 0, 1}}}));
  checkGradient(unary("Transpose", draw.reals({2, 3})));
  for (int64_t axis : {1, -2})
    checkGradient({"Concat",
                   {{"axis", axis}},
                   {draw.reals({2, 3, 2}), draw.reals({2, 1, 2}), draw.reals({2, 2, 2})},
                   {0, 1, 2}});
  checkGradient({"Expand", {}, {draw.reals({3, 1}), known({2, 3, 4})}, {0}});
  checkGradient({"Expand", {}, {draw.reals({3, 4}), known({1, 1})}, {0}});
  checkGradient({"Pad",
                 {},
                 {draw.reals({2, 3}), known({0, 1, 2, -1}), Tensor::scalar(ElementType::f64, 7)},
                 {0}});
  checkGradient(
      {"Slice",
       {},
       {draw.reals({5, 6}), known({1, -1}), known({4, -100}), known({0, 1}), known({2, -2})},
       {0}});
  checkGradient({"Slice", {}, {draw.reals({5, 6}), known({1}), known({100})}, {0}});
  checkGradient({"Gather",
                 {{"axis", int64_t(1)}},
                 {draw.reals({2, 4, 3}), draw.integers({2, 2}, -4, 3)},
                 {0}});
  checkGradient({"Gather", {}, {draw.reals({4, 3}), Tensor::scalar(ElementType::i64, 2)}, {0}});
  checkGradient({"GatherGrad",
                 {},
                 {Tensor::vector({4, 3}), draw.integers({5}, -4, 3), draw.reals({5, 3})},
                 {2}});
}

} // namespace pdc::test
