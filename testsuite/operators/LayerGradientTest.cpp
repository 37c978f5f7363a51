#include "testsuite/operators/GradientCheck.h"

namespace pdc::test {

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
  checkGradient(unary("MaxPool", draw.distinct({2, 2, 3, 4}),
                      {{"kernel_shape", Shape{2, 2}}, {"storage_order", int64_t(1)}}));
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

TEST(Gradient, BatchNormalizationByRunningStatistics) {
  Draw draw;
  for (Shape shape : {Shape{4, 3}, Shape{2, 3, 4, 2}, Shape{3, 2, 5}, Shape{1, 1, 1}}) {
    Shape channels = {shape[1]};
    Case test{"BatchNormalization",
              {{"epsilon", 1e-3}},
              {draw.reals(shape), draw.reals(channels, 0.5, 2), draw.reals(channels),
               draw.reals(channels, 5, 9), draw.reals(channels, 0.5, 2)},
              {0, 1, 2, 3, 4}};
    test.hasAllOutputs = false;
    checkGradient(test);
  }
}

/// Either result's gradient alone, too; with gates in ONNX's order and in PyTorch's.
TEST(Gradient, RecurrentCells) {
  Draw draw;
  const Attributes places[] = {{}, {{"gates", std::vector<int64_t>{0, 3, 1, 2}}}};
  for (const std::vector<size_t> &arriving : {std::vector<size_t>{0, 1}, {0}, {1}})
    checkGradient({"LstmCell",
                   places[arriving.size() % 2],
                   {draw.reals({3, 20}, -3, 3), draw.reals({3, 5}, -2, 2)},
                   {0, 1},
                   2,
                   false,
                   arriving});
  for (const Attributes &order :
       {Attributes(), Attributes({{"gates", std::vector<int64_t>{1, 0, 2}}})})
    checkGradient({"GruCell",
                   order,
                   {draw.reals({3, 15}, -3, 3), draw.reals({3, 15}, -3, 3), draw.reals({3, 5})},
                   {0, 1, 2}});
}

TEST(Gradient, LocalResponse) {
  Draw draw;
  for (int64_t size : {1, 2, 3, 5})
    checkGradient(unary("LRN", draw.reals({2, 6, 2, 2}),
                        {{"size", size}, {"alpha", 0.5}, {"beta", 0.75}, {"bias", 1.5}}));
}

/// Against differences: of what is turned and of the angles, which are repeated.
TEST(Gradient, RotateHalves) {
  Draw draw;
  for (int64_t form : {0, 1, 2, 3})
    for (const Shape &angles : {Shape{3, 1, 6}, {2, 3, 4, 6}, {6}})
      checkGradient({"RotateHalves",
                     {{"inverse", form % 2}, {"interleaved", form / 2}},
                     {draw.reals({2, 3, 4, 6}), draw.reals(angles), draw.reals(angles)},
                     {0, 1, 2}});
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

/// Products that read their operands transposed.
TEST(Gradient, FusedMatMul) {
  Draw draw;
  const std::pair<Shape, Shape> shapes[] = {{{3, 4}, {4, 5}},
                                            {{2, 3, 4}, {4, 5}},
                                            {{2, 3, 4}, {2, 4, 5}},
                                            {{3, 4}, {2, 4, 5}},
                                            {{2, 1, 3, 4}, {3, 4, 2}}};
  auto turned = [](Shape shape, bool isTurned) {
    if (isTurned)
      std::swap(shape.end()[-1], shape.end()[-2]);
    return shape;
  };
  for (const auto &[a, b] : shapes)
    for (int64_t transA : {0, 1})
      for (int64_t transB : {0, 1})
        checkGradient({"FusedMatMul",
                       {{"transA", transA}, {"transB", transB}, {"alpha", 0.5}},
                       {draw.reals(turned(a, transA)), draw.reals(turned(b, transB))},
                       {0, 1}});
}

} // namespace pdc::test
