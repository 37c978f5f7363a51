#include "testsuite/operators/GradientCheck.h"

namespace pdc::test {

using Shape = std::vector<int64_t>;

static Case unary(const char *op, Tensor input, Attributes attributes = {}) {
  return {op, std::move(attributes), {std::move(input)}, {0}};
}

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
}

TEST(Gradient, SmoothFunctions) {
  Draw draw;
  for (const char *op : {"Softplus", "Softsign", "Mish", "Gelu", "FastGelu", "Sin", "Cos", "Tan",
                         "Atan", "Sinh", "Cosh", "Asinh"})
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
}

TEST(Gradient, Convolution) {
  Draw draw;
  struct Form {
    Shape x, w;
    Attributes attributes;
  };
  const Form forms[] = {
      {{2, 3, 5, 5}, {4, 3, 3, 3}, {}},
      {{2, 3, 6, 5}, {4, 3, 3, 2}, {{"pads", Shape{1, 0, 2, 1}}, {"strides", Shape{2, 1}}}},
      {{1, 4, 7, 7}, {4, 2, 3, 3}, {{"group", int64_t(2)}, {"dilations", Shape{2, 1}}}},
      {{2, 4, 4, 4},
       {4, 1, 3, 3},
       {{"group", int64_t(4)}, {"auto_pad", std::string("SAME_UPPER")}}},
      {{1, 2, 5, 6},
       {3, 2, 2, 2},
       {{"auto_pad", std::string("SAME_LOWER")}, {"strides", Shape{2, 2}}}},
      {{2, 2, 6}, {3, 2, 3}, {{"kernel_shape", Shape{3}}}},
      {{1, 1, 3, 3, 3}, {2, 1, 2, 2, 2}, {{"auto_pad", std::string("VALID")}}},
      {{2, 3, 1, 1}, {4, 3, 1, 1}, {}},
  };
  for (const Form &form : forms)
    checkGradient({"Conv",
                   form.attributes,
                   {draw.reals(form.x), draw.reals(form.w), draw.reals({form.w[0]})},
                   {0, 1, 2}});
  checkGradient({"Conv", {}, {draw.reals({1, 1, 3, 3}), draw.reals({1, 1, 2, 2})}, {0, 1}});
  checkGradient({"ConvInputGrad",
                 {{"input_shape", std::vector<int64_t>{2, 2, 5, 4}},
                  {"kernel_shape", std::vector<int64_t>{2, 3}},
                  {"strides", std::vector<int64_t>{2, 1}}},
                 {draw.reals({2, 3, 2, 2}), draw.reals({3, 2, 2, 3})},
                 {0, 1}});
}

static const std::vector<std::pair<Shape, Attributes>> &poolings() {
  static const std::vector<std::pair<Shape, Attributes>> forms = {
      {{2, 3, 4, 4}, {{"kernel_shape", Shape{2, 2}}, {"strides", Shape{2, 2}}}},
      {{1, 2, 5, 5},
       {{"kernel_shape", Shape{3, 3}}, {"strides", Shape{2, 2}}, {"pads", Shape{1, 1, 1, 1}}}},
      {{1, 2, 5, 6},
       {{"kernel_shape", Shape{2, 3}}, {"strides", Shape{2, 2}}, {"ceil_mode", int64_t(1)}}},
      {{1, 1, 6, 6},
       {{"kernel_shape", Shape{3, 3}},
        {"strides", Shape{2, 2}},
        {"auto_pad", std::string("SAME_LOWER")}}},
      {{2, 2, 7}, {{"kernel_shape", Shape{3}}, {"strides", Shape{3}}, {"pads", Shape{1, 1}}}},
  };
  return forms;
}

TEST(Gradient, Pooling) {
  Draw draw;
  for (const auto &[shape, attributes] : poolings()) {
    checkGradient(unary("MaxPool", draw.distinct(shape), attributes));
    for (int64_t include : {0, 1}) {
      Attributes average = attributes;
      average.set("count_include_pad", include);
      checkGradient(unary("AveragePool", draw.reals(shape), average));
    }
  }
  checkGradient(unary("MaxPool", draw.distinct({1, 1, 6, 6}),
                      {{"kernel_shape", Shape{2, 2}}, {"dilations", Shape{2, 2}}}));
  checkGradient(unary("GlobalAveragePool", draw.reals({2, 3, 4, 5})));
  checkGradient(unary("GlobalAveragePool", draw.reals({2, 3, 1})));
}

TEST(Gradient, BatchNormalization) {
  Draw draw;
  for (Shape shape : {Shape{4, 3}, Shape{2, 3, 4, 2}, Shape{3, 2, 5}}) {
    Shape channels = {shape[1]};
    checkGradient({"BatchNormInternal",
                   {{"epsilon", 1e-3}, {"momentum", 0.9}},
                   {draw.reals(shape), draw.reals(channels, 0.5, 2), draw.reals(channels),
                    draw.reals(channels), draw.reals(channels, 0.5, 2)},
                   {0, 1, 2},
                   5});
  }
}

TEST(Gradient, LocalResponse) {
  Draw draw;
  for (int64_t size : {1, 2, 3, 5})
    checkGradient(unary("LRN", draw.reals({2, 6, 2, 2}),
                        {{"size", size}, {"alpha", 0.5}, {"beta", 0.75}, {"bias", 1.5}}));
}

TEST(Gradient, Dropout) {
  Draw draw;
  checkGradient({"Dropout",
                 {{"ratio", 0.4}, {"key", int64_t(99)}},
                 {draw.reals({4, 6}), Tensor::vector({5, 6, 100, 101, 102, 103})},
                 {0}});
}

TEST(Gradient, Gemm) {
  Draw draw;
  for (int64_t transA : {0, 1})
    for (int64_t transB : {0, 1})
      for (Shape c : {Shape{3, 5}, Shape{5}, Shape{1, 5}, Shape{3, 1}, Shape{}})
        checkGradient({"Gemm",
                       {{"transA", transA}, {"transB", transB}, {"alpha", 0.5}, {"beta", 2.0}},
                       {draw.reals(transA ? Shape{4, 3} : Shape{3, 4}),
                        draw.reals(transB ? Shape{5, 4} : Shape{4, 5}), draw.reals(c)},
                       {0, 1, 2}});
  checkGradient({"Gemm", {}, {draw.reals({3, 4}), draw.reals({4, 5})}, {0, 1}});
}

TEST(Gradient, MatMul) {
  Draw draw;
  const std::pair<Shape, Shape> shapes[] = {
      {{3, 4}, {4, 5}},          {{2, 3, 4}, {4, 5}}, {{2, 3, 4}, {2, 4, 5}}, {{3, 4}, {2, 4, 5}},
      {{2, 1, 3, 4}, {3, 4, 2}}, {{4}, {4, 5}},       {{3, 4}, {4}},          {{4}, {4}},
      {{2, 3, 4}, {4}},          {{4}, {2, 4, 3}}};
  for (const auto &[a, b] : shapes)
    checkGradient({"MatMul", {}, {draw.reals(a), draw.reals(b)}, {0, 1}});
}

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
  EagerGradientBuilder builder(test, run(test), Tensor{{ElementType::f64, {1}}, {12}});
  findOperator("ReduceMax")->differentiate(builder);
  EXPECT_EQ(builder.gradient(0)->data, (std::vector<double>{6, 0, 6, 0}));
  Tensor value = Tensor::scalar(ElementType::f64, 5);
  Case both{"Min", {}, {value, value}, {0, 1}};
  EagerGradientBuilder shared(both, run(both), Tensor::scalar(ElementType::f64, 12));
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

TEST(Gradient, PairLosses) {
  Draw draw;
  checkGradient({"MeanSquaredError", {}, {draw.reals({3, 4}), draw.reals({3, 4})}, {0}});
  checkGradient({"MeanAbsoluteError", {}, {draw.distinct({3, 4}), draw.reals({3, 4}, 9, 10)}, {0}});
  checkGradient({"BinaryCrossEntropyWithLogits",
                 {{"reduction", std::string("sum")}},
                 {draw.reals({3, 4}, -3, 3), draw.reals({3, 4}, 0, 1)},
                 {0}});
}

/// Every differentiable operator appears in this file: a rule without a test would be a belief.
TEST(Gradient, EveryRuleIsTested) {
  const std::set<std::string_view> tested = {"Abs",
                                             "Acos",
                                             "Acosh",
                                             "Add",
                                             "Asin",
                                             "Asinh",
                                             "Atan",
                                             "Atanh",
                                             "AveragePool",
                                             "BatchNormInternal",
                                             "BatchNormalization",
                                             "BinaryCrossEntropyWithLogits",
                                             "Cast",
                                             "Celu",
                                             "Clip",
                                             "Concat",
                                             "Conv",
                                             "ConvInputGrad",
                                             "Cos",
                                             "Cosh",
                                             "CumSum",
                                             "Div",
                                             "Dropout",
                                             "Elu",
                                             "Erf",
                                             "Exp",
                                             "Expand",
                                             "FastGelu",
                                             "Flatten",
                                             "Gather",
                                             "GatherGrad",
                                             "Gelu",
                                             "Gemm",
                                             "GlobalAveragePool",
                                             "HardSigmoid",
                                             "HardSwish",
                                             "Identity",
                                             "LRN",
                                             "LayerNormalization",
                                             "LeakyRelu",
                                             "Log",
                                             "LogSoftmax",
                                             "MatMul",
                                             "Max",
                                             "MaxPool",
                                             "MeanAbsoluteError",
                                             "MeanSquaredError",
                                             "Min",
                                             "Mish",
                                             "Mul",
                                             "Neg",
                                             "NegativeLogLikelihoodLoss",
                                             "PRelu",
                                             "Pad",
                                             "Pow",
                                             "Reciprocal",
                                             "ReduceMax",
                                             "ReduceMean",
                                             "ReduceSum",
                                             "Relu",
                                             "Reorder",
                                             "Reshape",
                                             "Selu",
                                             "Sigmoid",
                                             "Sin",
                                             "Sinh",
                                             "Slice",
                                             "Softmax",
                                             "SoftmaxCrossEntropyLoss",
                                             "Softplus",
                                             "Softsign",
                                             "Split",
                                             "Sqrt",
                                             "Squeeze",
                                             "Sub",
                                             "Sum",
                                             "Tan",
                                             "Tanh",
                                             "ThresholdedRelu",
                                             "Transpose",
                                             "Unsqueeze",
                                             "Where"};
  for (const Operator *op : allOperators())
    EXPECT_EQ(op->differentiate != nullptr, tested.contains(op->name)) << op->name;
}

} // namespace pdc::test
