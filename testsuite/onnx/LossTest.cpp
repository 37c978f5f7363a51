#include "compiler/onnx/Loss.h"
#include "testsuite/onnx/ModelText.h"

using namespace pdc;
using namespace pdc::testing;

static std::string lossOf(const std::string &text) {
  return toString(chooseLoss(read(protoOf(header + text)), ""));
}

/// As PyTorch writes a network that computes its loss.
TEST(Losses, areTheFirstOutputWhereThatIsANumber) {
  const std::string body = "{ n = ReduceMean<keepdims = 0>(x)  s = Relu(x) }";
  EXPECT_EQ(lossOf("net (float[2, 5] x) => (float n, float[2, 5] s) " + body), "output of 'n'");
  EXPECT_EQ(lossOf("net (float[2, 5] x) => (float[] n) " + body),
            "cross_entropy of 'n' with labels 'labels'")
      << "nothing says how many dimensions it has";
  EXPECT_EQ(lossOf("net (float[2, 5] x) => (float[2, 5] s, float n) " + body),
            "cross_entropy of 's' with labels 'labels'");
  EXPECT_EQ(lossOf("net (int64[2, 5] x) => (int64 n) { n = ReduceMax<keepdims = 0>(x) }"),
            "cross_entropy of 'n' with labels 'labels'");
}

/// What a cut into microbatches changes.
TEST(Losses, areSumsWhereNoMeanIsTaken) {
  auto isSumOf = [](const std::string &body) {
    const Model model = read(protoOf(header + ("net (float[2, 5] x) => (float n) {" + body + "}")));
    return isSum(model, chooseLoss(model, "output:n"));
  };
  EXPECT_TRUE(isSumOf("n = ReduceSum<keepdims = 0>(x)"));
  EXPECT_TRUE(isSumOf("s = ReduceSumSquare<keepdims = 0>(x)  c = Constant<value_float = 0.5>()  "
                      "n = Neg(s)"));
  EXPECT_TRUE(isSumOf("s = ReduceSum(x)  n = Squeeze(s)"));
  // By the file's number of samples.
  EXPECT_FALSE(isSumOf("s = ReduceSum(x)  c = Constant<value_float = 2.0>()  h = Div(s, c)  "
                       "n = Squeeze(h)"));
  EXPECT_FALSE(isSumOf("m = ReduceMean<axes = [0], keepdims = 0>(x)  n = ReduceSum<keepdims = 0>(m)"));
  EXPECT_FALSE(isSumOf("n = ReduceMean<keepdims = 0>(x)"));
  EXPECT_FALSE(isSumOf("s = ReduceSum<keepdims = 0>(x)  a = Abs(x)  c = ReduceSum<keepdims = 0>(a)  "
                       "n = Div(s, c)"));
}
