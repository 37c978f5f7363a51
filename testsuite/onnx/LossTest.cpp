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
