#include "testsuite/operators/GradientCheck.h"

namespace pdc::test {

TEST(Gradient, Activations) {
  Draw draw;
  for (const char *op : {"Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Neg", "Erf", "HardSwish"})
    for (Shape shape : {Shape{5}, Shape{2, 3, 4}, Shape{}})
      checkGradient(unary(op, draw.distinct(shape)));
  for (const char *op : {"Log", "Sqrt", "Reciprocal"})
    checkGradient(unary(op, draw.reals({3, 4}, 0.5, 3)));
  for (double alpha : {0.01, 0.3})
    checkGradient(unary("LeakyRelu", draw.distinct({4, 5}), {{"alpha", alpha}}));
  checkGradient(unary("HardSigmoid", draw.distinct({40}), {{"alpha", 0.3}, {"beta", 0.4}}));
  checkGradient({"Clip",
                 {},
                 {draw.distinct({30}), Tensor::scalar(ElementType::f64, -0.5),
                  Tensor::scalar(ElementType::f64, 0.71)},
                 {0}});
  for (const char *op : {"AtLeast", "AtMost"})
    checkGradient({op, {}, {draw.distinct({30}), Tensor::scalar(ElementType::f64, 0.1)}, {0}});
  checkGradient(
      {"LogAtLeast", {}, {draw.reals({30}, 0.2, 3), Tensor::scalar(ElementType::f64, 0.1)}, {0}});
}

TEST(Gradient, SmoothFunctions) {
  Draw draw;
  for (const char *op : {"Softplus", "Softsign", "Mish", "Gelu", "FastGelu", "Swish", "Sin", "Cos",
                         "Tan", "Atan", "Sinh", "Cosh", "Asinh"})
    for (Shape shape : {Shape{2, 3, 4}, Shape{}})
      checkGradient(unary(op, draw.distinct(shape)));
  for (const char *op : {"Asin", "Acos", "Atanh"})
    checkGradient(unary(op, draw.reals({3, 4}, -0.9, 0.9)));
  checkGradient(unary("Acosh", draw.reals({3, 4}, 1.2, 4)));
  for (const char *op : {"Elu", "Celu", "ThresholdedRelu"})
    checkGradient(unary(op, draw.distinct({4, 5}), {{"alpha", 0.7}}));
  checkGradient(unary("Selu", draw.distinct({4, 5}), {{"alpha", 1.6}, {"gamma", 1.1}}));
  for (Shape slope : {Shape{3, 1}, Shape{1}, Shape{2, 3, 4}})
    checkGradient({"PRelu", {}, {draw.distinct({2, 3, 4}), draw.reals(slope)}, {0, 1}});
  for (const char *op : {"Min", "Max"})
    checkGradient({op,
                   {},
                   {draw.distinct({2, 3}), draw.reals({3}, -0.3, 0.3), draw.reals({2, 1})},
                   {0, 1, 2}});
}

TEST(Gradient, ArithmeticBroadcasts) {
  Draw draw;
  const std::pair<Shape, Shape> shapes[] = {
      {{2, 3}, {2, 3}},    {{2, 3}, {3}}, {{3}, {2, 3}}, {{2, 3, 2, 2}, {3, 1, 1}},
      {{2, 1, 4}, {3, 1}}, {{2, 3}, {}},  {{}, {4}},     {{1, 3}, {2, 1}}};
  for (const auto &[a, b] : shapes) {
    for (const char *op : {"Add", "Sub", "Mul", "Div"})
      checkGradient({op, {}, {draw.reals(a), draw.reals(b, 0.5, 2)}, {0, 1}});
    checkGradient({"Pow", {}, {draw.reals(a, 0.5, 2), draw.reals(b, -2, 3)}, {0, 1}});
    checkGradient({"Sum", {}, {draw.reals(a), draw.reals(b), draw.reals(a)}, {0, 1, 2}});
    Tensor condition = draw.integers(a, 0, 1);
    condition.type.element = ElementType::boolean;
    checkGradient({"Where", {}, {condition, draw.reals(b), draw.reals(a)}, {1, 2}});
  }
  checkGradient({"Pow", {}, {draw.reals({5}), Tensor::scalar(ElementType::f64, 2)}, {0}});
  for (int64_t truncates : {0, 1})
    for (double divisor : {0.45, -0.7})
      checkGradient({"Mod",
                     {{"fmod", truncates}},
                     {draw.distinct({3, 4}), draw.reals({3, 1}, divisor, divisor + 0.01)},
                     {0, 1}});
}

TEST(Gradient, Reductions) {
  Draw draw;
  for (int64_t keep : {0, 1}) {
    for (Shape axes : {Shape{0}, Shape{1, 2}, Shape{-1}, Shape{0, 1, 2}}) {
      checkGradient(
          {"ReduceSum", {{"keepdims", keep}}, {draw.reals({2, 3, 4}), Tensor::vector(axes)}, {0}});
      checkGradient(
          {"ReduceMean", {{"keepdims", keep}}, {draw.reals({2, 3, 4}), Tensor::vector(axes)}, {0}});
      checkGradient({"ReduceMax",
                     {{"keepdims", keep}},
                     {draw.distinct({2, 3, 4}), Tensor::vector(axes)},
                     {0}});
    }
    Tensor factors = draw.reals({2, 3, 4}, 0.5, 2), zeros = factors;
    zeros.data[1] = zeros.data[9] = zeros.data[10] = 0;
    for (const Tensor &x : {factors, zeros}) {
      checkGradient({"ReduceProd", {{"keepdims", keep}}, {x, Tensor::vector({-1})}, {0}});
      checkGradient({"ReduceProd", {{"keepdims", keep}}, {x, Tensor::vector({0, 2})}, {0}});
    }
    checkGradient(unary("ReduceProd", draw.reals({2, 3}), {{"keepdims", keep}}));
    checkGradient(unary("ReduceSum", draw.reals({2, 3}), {{"keepdims", keep}}));
    checkGradient(unary("ReduceMean", draw.reals({2, 3}), {{"keepdims", keep}}));
  }
}

TEST(Gradient, CumulativeSums) {
  Draw draw;
  for (int64_t reverse : {0, 1})
    for (int64_t exclusive : {0, 1})
      for (int64_t axis : {0, 1, -1})
        checkGradient({"CumSum",
                       {{"reverse", reverse}, {"exclusive", exclusive}},
                       {draw.reals({2, 3, 4}), Tensor::scalar(ElementType::i64, axis)},
                       {0}});
}

/// Equal extremes share the gradient: 12 over two of them.
TEST(Gradient, EqualExtremesShare) {
  Case test{"ReduceMax", {}, {Tensor{{ElementType::f64, {4}}, {3, 1, 3, 2}}}, {0}};
  EagerGradientBuilder builder(test, run(test), {Tensor{{ElementType::f64, {1}}, {12}}});
  findOperator("ReduceMax")->differentiate(builder);
  EXPECT_EQ(builder.gradient(0)->data, (std::vector<double>{6, 0, 6, 0}));
  Tensor value = Tensor::scalar(ElementType::f64, 5);
  Case both{"Min", {}, {value, value}, {0, 1}};
  EagerGradientBuilder shared(both, run(both), {Tensor::scalar(ElementType::f64, 12)});
  findOperator("Min")->differentiate(shared);
  EXPECT_EQ(shared.gradient(0)->data[0], 6);
  EXPECT_EQ(shared.gradient(1)->data[0], 6);
}

TEST(Gradient, Softmax) {
  Draw draw;
  for (const char *op : {"Softmax", "LogSoftmax"}) {
    for (int64_t axis : {0, 1, -1})
      checkGradient(unary(op, draw.reals({2, 3, 4}), {{"axis", axis}}));
    checkGradient(
        unary(op, draw.reals({2, 3, 4}), {{"axis", int64_t(1)}, {"flatten", int64_t(1)}}));
  }
}

TEST(Gradient, CrossEntropy) {
  Draw draw;
  for (const char *op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"})
    for (const char *reduction : {"sum", "mean", "none"})
      for (Shape shape : {Shape{5, 4}, Shape{2, 3, 2, 2}})
        for (bool weighted : {false, true}) {
          Shape labelShape = shape;
          labelShape.erase(labelShape.begin() + 1);
          Tensor labels = draw.integers(labelShape, 0, shape[1] - 1);
          labels.data[1] = -100;
          Case test{op,
                    {{"reduction", std::string(reduction)}, {"ignore_index", int64_t(-100)}},
                    {draw.reals(shape), labels},
                    {0}};
          if (weighted)
            test.inputs.push_back(draw.reals({shape[1]}, 0.5, 2));
          checkGradient(test);
        }
}

/// The logarithms of probabilities may be part of what is trained, beside the loss or alone.
TEST(Gradient, LogarithmsOfCrossEntropy) {
  for (std::vector<size_t> arriving : {std::vector<size_t>{0, 1}, {1}}) {
    Draw draw;
    Case test{"SoftmaxCrossEntropyLoss",
              {{"reduction", std::string("sum")}},
              {draw.reals({2, 3, 2}), draw.integers({2, 2}, 0, 2)},
              {0}};
    test.outputs = 3, test.arriving = arriving;
    checkGradient(test);
  }
}

TEST(Gradient, PairLosses) {
  Draw draw;
  checkGradient({"MeanSquaredError", {}, {draw.reals({3, 4}), draw.reals({3, 4})}, {0}});
  checkGradient({"MeanAbsoluteError", {}, {draw.distinct({3, 4}), draw.reals({3, 4}, 9, 10)}, {0}});
  checkGradient({"BinaryCrossEntropyWithLogits",
                 {{"reduction", std::string("sum")}},
                 {draw.reals({3, 4}, -3, 3), draw.reals({3, 4}, 0, 1)},
                 {0}});
}

} // namespace pdc::test
