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

/// A Softmax says which dimension holds the classes, else what makes the scores.
TEST(Losses, knowWhereTheClassesAre) {
  auto lossOfScores = [](const std::string &shape, const std::string &body) {
    onnx::ModelProto model =
        protoOf(header + ("net (float[2, 5, 5] x, float[2, 5, 5, 5] image) => (float" + shape +
                          " y) <int64[3] s = {2, 5, 5}, int64[2] flat = {10, 5}> {" + body + "}"));
    addInitializer(model, "w", {5, 5}, std::vector<float>(25, 1));
    addInitializer(model, "c", {5, 5, 1, 1}, std::vector<float>(25, 1));
    return toString(chooseLoss(read(model), ""));
  };
  const std::string last = ", classes in its last dimension, with labels 'labels'";
  const std::string second = " with labels 'labels'";
  EXPECT_EQ(lossOfScores("[2, 5, 5]", "y = MatMul(x, w)"), "cross_entropy of 'y'" + last);
  EXPECT_EQ(lossOfScores("[2, 5, 5]", "z = MatMul(x, w)  y = Softmax<axis = -1>(z)"),
            "cross_entropy of 'z'" + last);
  EXPECT_EQ(
      lossOfScores("[2, 5, 5]", "z = MatMul(x, w)  p = Softmax<axis = 2>(z)  y = Identity(p)"),
      "cross_entropy of 'z'" + last);
  EXPECT_EQ(lossOfScores("[2, 5, 5]", "z = MatMul(x, w)  y = LogSoftmax<axis = 1>(z)"),
            "cross_entropy of 'z'" + second);
  EXPECT_EQ(lossOfScores("[2, 5, 5]", "z = MatMul(x, w)  y = Softmax<axis = -2>(z)"),
            "cross_entropy of 'z'" + second);
  EXPECT_EQ(lossOfScores("[2, 5, 5, 5]", "z = Conv(image, c)  p = Softmax<axis = -3>(z)  "
                                         "y = Cast<to = 1>(p)"),
            "cross_entropy of 'z'" + second);
  EXPECT_EQ(lossOfScores("[]", "z = MatMul(x, w)  y = Softmax<axis = -1>(z)"),
            "cross_entropy of 'z'" + last)
      << "of so many dimensions as it may have";
  EXPECT_EQ(lossOfScores("[2, 5, 5]", "z = MatMul(x, w)  y = Transpose<perm = [0, 2, 1]>(z)"),
            "cross_entropy of 'y'" + second);
  // As tf2onnx and jax2onnx write a layer of each token.
  EXPECT_EQ(
      lossOfScores("[2, 5, 5]",
                   "f = Reshape(x, flat)  z = MatMul(f, w)  r = Reshape(z, s)  y = Add(r, r)"),
      "cross_entropy of 'y'" + last);
  // A product whose columns a Reshape divides.
  EXPECT_EQ(lossOfScores("[2, 5, 7]", "f = Reshape(x, flat)  z = Gemm(f, w)  y = Reshape(z, s)"),
            "cross_entropy of 'y'" + second);
  // Keras has its channels last.
  EXPECT_EQ(
      lossOfScores("[2, 5, 5, 5]", "z = Conv(image, c)  y = Transpose<perm = [0, 2, 3, 1]>(z)"),
      "cross_entropy of 'y'" + last);
  EXPECT_EQ(lossOfScores("[2, 5, 5, 5]", "z = Conv(image, c)  p = Softmax<axis = 1>(z)  "
                                         "y = Transpose<perm = [0, 2, 3, 1]>(p)"),
            "cross_entropy of 'z'" + second);
  EXPECT_EQ(lossOfScores("[2, 5, 5]", "z = MatMul(x, w)  p = LogSoftmax<axis = 2>(z)  "
                                      "y = Transpose<perm = [0, 2, 1]>(p)"),
            "cross_entropy of 'z'" + last);
  EXPECT_EQ(lossOfScores("[2, 5, 5, 5]", "z = Conv(image, c)  p = Softmax<axis = 1>(z)  "
                                         "y = Transpose<perm = [0, 3, 2, 1]>(p)"),
            "cross_entropy of 'y'" + second)
      << "rows and columns change places";
  EXPECT_EQ(lossOfScores("[2, 5, 5, 5]", "y = Conv(image, c)"), "cross_entropy of 'y'" + second);
}

TEST(Losses, takeScoresForShares) {
  auto lossOfOption = [](const std::string &option, const std::string &shape,
                         const std::string &body) {
    const Model model =
        read(protoOf(header + ("net (float[2, 5] x) => (float" + shape + " y) {" + body + "}")));
    return toString(chooseLoss(model, option));
  };
  EXPECT_EQ(lossOfOption("bce_with_logits", "[2, 5]", "z = Neg(x)  y = Sigmoid(z)"),
            "bce_with_logits of 'z' with labels 'labels'");
  EXPECT_EQ(lossOfOption("mse", "[2, 5]", "z = Neg(x)  y = Sigmoid(z)"),
            "mse of 'y' with labels 'labels'");
  EXPECT_EQ(lossOfOption("nll", "[2, 5]", "z = Neg(x)  y = LogSoftmax(z)"),
            "nll of 'y' with labels 'labels'");
  auto refusalOf = [&](const char *option, const char *shape, const std::string &body) {
    try {
      return lossOfOption(option, shape, body);
    } catch (const Error &error) {
      return std::string(error.what());
    }
  };
  for (const char *behind : {"y = Softmax(z)", "p = Softmax(z)  y = Transpose<perm = [1, 0]>(p)"})
    EXPECT_EQ(
        refusalOf("nll", "[2, 5]", std::string("z = Neg(x)  ") + behind),
        "loss: nll takes logarithms of shares, and 'y' is a Softmax; say --loss cross_entropy");
  for (const char *shape : {"[2, 1]", "[2, 1, 4, 4]"})
    EXPECT_EQ(refusalOf("", shape, "y = Neg(x)"),
              "loss: the scores of 'y' have one class to choose from; say --loss bce_with_logits, "
              "mse or l1");
}
