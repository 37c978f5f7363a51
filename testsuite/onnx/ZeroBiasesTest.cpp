#include "testsuite/onnx/ModelText.h"

using namespace pdc;
using namespace pdc::testing;

/// How many inputs the convolution has with such a bias.
static size_t inputsWith(const std::string &bias) {
  const Model model = read(protoOf(std::string(header) + R"(
    net (float[2, 1, 5, 5] x) => (float[2, 4, 5, 5] y)
    <float[4, 1, 1, 1] w = {1, 2, 3, 4}, float zero_weight = {0}> {
      zero = Constant<value = float {0}>()
      one = Constant<value = float {1}>()
      channels = Shape<end = 1>(w)
      two = Constant<value_ints = [2]>()
      shape = Concat<axis = 0>(channels, two)
      )" + bias + " y = Conv(x, w, b) }"));
  return model.nodes.back().inputs.size();
}

TEST(ZeroBiases, areLeftOut) {
  EXPECT_EQ(inputsWith("b = Expand(zero, channels)"), 2u);
  EXPECT_EQ(inputsWith("n = CastLike(zero, x)  b = Expand(n, shape)"), 2u);
  EXPECT_EQ(inputsWith("b = Expand(one, channels)"), 3u);
  EXPECT_EQ(inputsWith("n = Neg(zero)  b = Expand(n, channels)"), 3u);
  EXPECT_EQ(inputsWith("b = Expand(zero_weight, channels)"), 3u) << "it may be trained";
}
