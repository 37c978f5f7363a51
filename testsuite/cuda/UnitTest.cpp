#include "testsuite/cuda/CudaCase.h"
#include "testsuite/kernels/EitherDevice.h"

#include <gtest/gtest.h>

#include <cstring>

/// The kernels for GPUs, run on the host's threads, against the operators' references in f64:
/// patterns, layouts, workspace bounds and kernels together, as choose-kernels puts them together.
namespace pdc {

namespace {

Attributes window(std::vector<int64_t> kernel, int64_t stride, int64_t pad, int64_t group = 1,
                  int64_t dilation = 1) {
  const size_t rank = kernel.size();
  return {{"dilations", std::vector<int64_t>(rank, dilation)},
          {"group", group},
          {"kernel_shape", kernel},
          {"pads", std::vector<int64_t>(2 * rank, pad)},
          {"strides", std::vector<int64_t>(rank, stride)}};
}

struct Shape {
  std::vector<int64_t> x, w, y;
  Attributes attributes;
};

std::vector<Shape> convolutions() {
  return {{{2, 3, 9, 9}, {5, 3, 3, 3}, {2, 5, 9, 9}, window({3, 3}, 1, 1)},
          {{2, 1, 14, 14}, {6, 1, 5, 5}, {2, 6, 14, 14}, window({5, 5}, 1, 2)},
          {{1, 8, 7, 7}, {6, 4, 3, 3}, {1, 6, 4, 4}, window({3, 3}, 2, 1, 2)},
          {{1, 4, 9, 9}, {4, 1, 3, 3}, {1, 4, 9, 9}, window({3, 3}, 1, 2, 4, 2)},
          {{3, 3, 5, 5}, {8, 3, 3, 3}, {3, 8, 5, 5}, window({3, 3}, 1, 1)},
          {{2, 3, 20}, {4, 3, 5}, {2, 4, 18}, window({5}, 1, 1)},
          {{1, 2, 5, 6, 4}, {3, 2, 3, 3, 3}, {1, 3, 5, 6, 4}, window({3, 3, 3}, 1, 1)}};
}

} // namespace

TEST(CudaKernels, Convolution) {
  for (const Shape &s : convolutions())
    for (bool bias : {false, true})
      expectReference([&](UnitCase &u) {
        std::vector<UnitValue> inputs = {u.operand(s.x), u.operand(s.w)};
        if (bias)
          inputs.push_back(u.operand({s.w[0]}));
        UnitValue y = u.node("Conv", inputs, s.attributes);
        if (bias)
          u.node("Relu", {y});
      });
}

TEST(CudaKernels, ConvolutionGradients) {
  for (const Shape &s : convolutions()) {
    expectReference([&](UnitCase &u) {
      Attributes attributes = s.attributes;
      attributes.set("input_shape", s.x);
      u.node("ConvInputGrad", {u.operand(s.y), u.operand(s.w)}, attributes);
    });
    expectReference([&](UnitCase &u) {
      u.node("ConvWeightGrad", {u.operand(s.y), u.operand(s.x)}, s.attributes);
    });
  }
  for (int64_t channels : {3, 37, 132})
    expectReference(
        [&](UnitCase &u) { u.node("ConvBiasGrad", {u.operand({70, channels, 3, 2})}); });
}

TEST(CudaKernels, MatrixProduct) {
  for (int64_t transA : {0, 1})
    for (int64_t transB : {0, 1})
      expectReference([&](UnitCase &u) {
        UnitValue a = u.operand(transA ? std::vector<int64_t>{7, 5} : std::vector<int64_t>{5, 7});
        UnitValue b = u.operand(transB ? std::vector<int64_t>{9, 7} : std::vector<int64_t>{7, 9});
        UnitValue y = u.node("Gemm", {a, b, u.operand({9})},
                             {{"transA", transA}, {"transB", transB}, {"alpha", 0.5}});
        u.node("Relu", {y});
      });
  auto product = [](std::vector<int64_t> a, std::vector<int64_t> b) {
    expectReference([&](UnitCase &u) { u.node("MatMul", {u.operand(a), u.operand(b)}); });
  };
  product({3, 4}, {4, 5});
  product({2, 3, 3, 4}, {4, 5});
  product({2, 3, 3, 4}, {2, 3, 4, 5});
  product({2, 1, 3, 4}, {1, 3, 4, 5});
  product({2, 3, 2, 3, 4}, {3, 1, 4, 5});
  product({4}, {4, 5});
  product({3, 4}, {4});
  for (std::vector<int64_t> bias : {std::vector<int64_t>{9}, {5, 9}, {5, 1}, {1}})
    expectReference([&](UnitCase &u) {
      UnitValue y = u.node("Gemm", {u.operand({5, 7}), u.operand({7, 9}), u.operand(bias)});
      u.node("Relu", {y});
    });
}

/// TF32 has no room for the 12th bit behind the point, f32 has. What is found is the sum of two
/// calls.
TEST(CudaKernels, MatrixProductInTf32) {
  for (auto [precision, expected] :
       {std::pair(Precision::fp32, 6 + 6 * 0x1p-12f), {Precision::tf32, 6.0f}}) {
    CudaCase unit;
    unit.options.precision = precision;
    unit.node("MatMul", {unit.given({{ElementType::f32, {1, 1}}, {1 + 0x1p-12}}),
                         unit.given({{ElementType::f32, {1, 1}}, {3}})});
    unit.check(1e-3);
    float found;
    std::memcpy(&found, unit.stored[0].data(), sizeof found);
    EXPECT_EQ(found, expected);
  }
}

/// The convolutions' kernels say it too: what cuDNN then takes is asked of it in CudnnTest.
TEST(CudaKernels, ConvolutionsSayWhatTheyComputeIn) {
  auto computeOf = [](Precision precision) {
    CudaCase unit;
    unit.options.precision = precision;
    unit.node("Conv", {unit.operand({1, 2, 5, 5}), unit.operand({3, 2, 3, 3})},
              window({3, 3}, 1, 1));
    unit.check(1e-3);
    return unit.choice.fields.string("compute", "none");
  };
  EXPECT_EQ(computeOf(Precision::fp32), "none");
  EXPECT_EQ(computeOf(Precision::tf32), "tf32");
}

TEST(CudaKernels, Pooling) {
  for (const char *op : {"MaxPool", "AveragePool"})
    for (int64_t pads : {0, 1})
      for (int64_t counts : {0, 1})
        expectReference([&](UnitCase &u) {
          Attributes attributes = window({3, 2}, 2, pads ? 1 : 0);
          attributes.set("count_include_pad", counts);
          u.node(op, {u.operand({2, counts ? 8 : 5, 8, 7})}, attributes);
        });
  expectReference([](UnitCase &u) { u.node("GlobalAveragePool", {u.operand({2, 5, 4, 3})}); });
  expectReference([](UnitCase &u) {
    u.node("AveragePool", {u.operand({2, 4, 5, 7, 8})}, window({2, 3, 3}, 2, 1));
  });
  expectReference(
      [](UnitCase &u) { u.node("MaxPool", {u.operand({2, 5, 9})}, window({3}, 2, 1)); });
}

/// Windows that overlap, touch, and leave pixels between them, at edges and behind pads.
TEST(CudaKernels, AveragePoolGradient) {
  for (int64_t channels : {3, 8})
    for (int64_t stride : {1, 2, 4})
      for (int64_t counts : {0, 1})
        expectReference([&](UnitCase &u) {
          Attributes attributes = window({3, 2}, stride, 1);
          attributes.set("count_include_pad", counts);
          attributes.set("input_shape", std::vector<int64_t>{2, channels, 9, 7});
          u.node("AveragePoolGrad", {u.operand({2, channels, 8 / stride + 1, 7 / stride + 1})},
                 attributes);
        });
}

/// The gradient reads what the forward kernel wrote about its maxima.
TEST(CudaKernels, MaxPoolGradient) {
  for (std::vector<int64_t> kernel : {std::vector<int64_t>{2, 2}, {3, 3}, {17, 16}, {1, 1}}) {
    CudaCase forward;
    const int64_t pad = kernel[0] == 3 ? 1 : 0, channels = kernel[0] == 17 ? 3 : 4;
    Attributes attributes = window(kernel, 2, pad);
    UnitValue x = forward.operand({2, channels, 17, 18});
    UnitValue y = forward.node("MaxPool", {x}, attributes, 2);
    forward.result(y);
    forward.result(UnitValue::node(0, 1));
    forward.check();
    const Tensor &positions = forward.referenceOf(0)[1];
    CudaCase backward;
    UnitValue dy = backward.operand(forward.referenceOf(0)[0].type.shape);
    UnitValue where = backward.given(positions);
    Attributes gradient = attributes;
    gradient.set("input_shape", std::vector<int64_t>{2, channels, 17, 18});
    backward.storedOperands = {{}, forward.stored[1]};
    backward.node("MaxPoolGrad", {dy, where}, gradient);
    backward.check();
  }
}

TEST(CudaKernels, Movement) {
  expectReference([](UnitCase &u) {
    UnitValue x = u.operand({5, 6, 7});
    u.node("Slice", {x, u.constant(Tensor::vector({1, -1})), u.constant(Tensor::vector({4, -8})),
                     u.constant(Tensor::vector({0, 2})), u.constant(Tensor::vector({2, -3}))});
  });
  expectReference([](UnitCase &u) {
    UnitValue x = u.operand({3, 4});
    u.node("Pad", {x, u.constant(Tensor::vector({1, -1, 2, 3}))});
  });
  expectReference([](UnitCase &u) {
    UnitValue a = u.operand({2, 3, 4}), b = u.operand({2, 1, 4});
    u.node("Concat", {a, b, u.operand({2, 2, 4})}, {{"axis", int64_t(1)}});
  });
}

TEST(CudaKernels, Gather) {
  for (int64_t axis : {0, 1})
    expectReference([&](UnitCase &u) {
      UnitValue x = u.operand({6, 7, 5}), indices = u.integers({3, 4}, -6, 5);
      u.node("Gather", {x, indices}, {{"axis", axis}});
    });
}

/// Many indices pick one row, or few, or many of some segments and few of others.
TEST(CudaKernels, GatherGradient) {
  for (int64_t rows : {4, 12, 500})
    expectReference([&](UnitCase &u) {
      UnitValue shape = u.constant(Tensor::vector({rows, 70}));
      UnitValue indices = u.integers({700}, -rows, rows - 1), dy = u.operand({700, 70});
      u.node("GatherGrad", {shape, indices, dy}, {{"axis", int64_t(0)}});
    });
  expectReference([](UnitCase &u) {
    UnitValue shape = u.constant(Tensor::vector({3, 5, 1100}));
    UnitValue indices = u.integers({300}, -5, 4), dy = u.operand({3, 300, 1100});
    u.node("GatherGrad", {shape, indices, dy}, {{"axis", int64_t(1)}});
  });
}

TEST(CudaKernels, BatchNormalization) {
  for (std::vector<int64_t> shape :
       {std::vector<int64_t>{6, 5}, {3, 37, 4, 5}, {300, 4}, {3, 140, 7, 5}}) {
    const std::vector<int64_t> channels = {shape[1]};
    CudaCase forward;
    UnitValue x = forward.operand(shape, 3, 5);
    std::vector<UnitValue> inputs = {x, forward.operand(channels), forward.operand(channels),
                                     forward.operand(channels), forward.operand(channels, 0.5, 2)};
    UnitValue y = forward.node("BatchNormInternal", inputs, {{"momentum", 0.8}}, 5);
    forward.node("Relu", {y});
    forward.result(UnitValue::node(1));
    for (int slot : {1, 2, 3, 4})
      forward.result(UnitValue::node(0, slot));
    forward.check(1e-5);
    CudaCase backward;
    std::vector<UnitValue> saved = {
        backward.operand(shape), backward.operand(shape, 3, 5), backward.operand(channels),
        backward.operand(channels, 3.8, 4.2), backward.operand(channels, 1, 2)};
    backward.node("BatchNormalizationGrad", saved, {}, 3);
    for (int slot : {0, 1, 2})
      backward.result(UnitValue::node(0, slot));
    backward.check(1e-5);
  }
  expectReference([](UnitCase &u) {
    u.node("BatchNormalization", {u.operand({2, 5, 3, 3}), u.operand({5}), u.operand({5}),
                                  u.operand({5}), u.operand({5}, 0.5, 2)});
  });
}

TEST(CudaKernels, LayerNormalization) {
  for (int64_t size : {33, 1500}) {
    CudaCase forward;
    UnitValue x = forward.operand({2, 5, size}, 3, 5);
    forward.node("LayerNormalization", {x, forward.operand({size}), forward.operand({size})},
                 {{"axis", int64_t(-1)}}, 3);
    for (int slot : {0, 1, 2})
      forward.result(UnitValue::node(0, slot));
    forward.check(1e-5);
    expectReference(
        [&](UnitCase &u) {
          u.node("LayerNormalizationInputGrad",
                 {u.operand({2, 5, size}), u.operand({2, 5, size}), u.operand({size}),
                  u.operand({2, 5, 1}), u.operand({2, 5, 1}, 1, 2)},
                 {{"axis", int64_t(-1)}});
        },
        1e-5);
  }
}

TEST(CudaKernels, Attention) { expectAttention<CudaCase>(); }

TEST(CudaKernels, RootMeanSquare) { expectRootMeanSquare<CudaCase>(); }

TEST(CudaKernels, SoftmaxAndLosses) {
  for (const char *op : {"Softmax", "LogSoftmax"})
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 40, 30}, {3, 9, 50}, {132, 2, 1024}})
      for (int64_t axis : {1, 2}) {
        expectReference([&](UnitCase &u) { u.node(op, {u.operand(shape)}, {{"axis", axis}}); });
        expectReference([&](UnitCase &u) {
          u.node(op + std::string("Grad"), {u.operand(shape), u.operand(shape)}, {{"axis", axis}});
        });
      }
  // Rows of scores by a warp, a block and, where pixels lie between the classes of many, a thread.
  for (std::vector<int64_t> shape :
       {std::vector<int64_t>{7, 10}, {7, 1500}, {3, 12, 7, 6}, {132, 2, 32, 32}}) {
    const int64_t classes = shape[1];
    std::vector<int64_t> rows = shape;
    rows.erase(rows.begin() + 1);
    std::vector<int64_t> scales = shape;
    scales[1] = 2;
    for (bool weighted : {false, true}) {
      Attributes attributes = {{"reduction", std::string("sum")}};
      if (weighted)
        attributes.set("ignore_index", int64_t(1));
      CudaCase loss;
      std::vector<UnitValue> inputs = {loss.operand(shape, -9, 9),
                                       loss.integers(rows, 0, classes - 1)};
      if (weighted)
        inputs.push_back(loss.operand({classes}, 0, 1));
      loss.node("SoftmaxCrossEntropyLoss", inputs, attributes, 3);
      for (int result : {0, 1, 2})
        loss.result(UnitValue::node(0, result));
      loss.check();
      expectReference([&](UnitCase &u) {
        inputs = {u.operand(shape, -3, 0), u.operand(scales, 0, 1), u.integers(rows, 0, classes - 1),
                  u.given(Tensor::scalar(ElementType::f32, 0.5))};
        if (weighted)
          inputs.push_back(u.operand({classes}, 0, 1));
        u.node("SoftmaxCrossEntropyLossGrad", inputs, attributes);
      });
    }
  }
  for (const char *op : {"MeanSquaredError", "MeanAbsoluteError", "BinaryCrossEntropyWithLogits"})
    for (int64_t count : {30, 9000})
      expectReference([&](UnitCase &u) {
        u.node(op, {u.operand({count}), u.operand({count}, 0, 1)},
               {{"reduction", std::string("sum")}});
      });
}

TEST(CudaKernels, Updates) {
  auto one = [](UnitCase &u, double value) {
    return u.given(Tensor::scalar(ElementType::f32, value));
  };
  expectReference([&](UnitCase &u) {
    u.node("SgdUpdate", {u.operand({1027}), u.operand({1027}), one(u, 0.5), one(u, 0.125)},
           {{"weight_decay", 0.25}});
  });
  for (double step : {1.0, 3.0}) {
    CudaCase adagrad;
    UnitValue w0 = adagrad.operand({1027}), g0 = adagrad.operand({1027}),
              h0 = adagrad.operand({1027}, 0, 1);
    adagrad.node("AdagradUpdate",
                 {w0, g0, h0, one(adagrad, 0.5), one(adagrad, 0.125), one(adagrad, step)},
                 {{"epsilon", 1e-6}, {"lr_decay", 0.1}, {"weight_decay", 0.01}}, 2);
    for (int slot : {0, 1})
      adagrad.result(UnitValue::node(0, slot));
    adagrad.check();
    for (int64_t decoupled : {1, 3}) {
      CudaCase adam;
      UnitValue w = adam.operand({1027}), g = adam.operand({1027}), m = adam.operand({1027}),
                v = adam.operand({1027}, 0, 1);
      adam.node("AdamUpdate", {w, g, m, v, one(adam, 0.5), one(adam, 0.125), one(adam, step)},
                {{"beta1", 0.9},
                 {"beta2", 0.99},
                 {"decoupled", decoupled},
                 {"epsilon", 1e-6},
                 {"first_step", 0.0},
                 {"post_decay", 0.01},
                 {"scaled_epsilon", int64_t(1)},
                 {"weight_decay", 0.01}},
                3);
      for (int slot : {0, 1, 2})
        adam.result(UnitValue::node(0, slot));
      adam.check();
    }
  }
}

TEST(CudaKernels, RotateHalves) { expectRotations<CudaCase>(); }

TEST(CudaKernels, LocalResponse) {
  expectReference([](UnitCase &u) {
    u.node("LRN", {u.operand({2, 9, 3, 4})},
           {{"alpha", 0.5}, {"beta", 0.75}, {"bias", 1.5}, {"size", int64_t(4)}});
  });
}

/// What has no kernel says so, and what to do.
TEST(CudaKernels, RefusesUnknownOperators) {
  CudaCase unit;
  unit.node("Relu", {unit.operand({4})});
  unit.view.nodes[0].op = "LSTM";
  unit.result(UnitValue::node(0));
  try {
    chooseKernel(unit.view, unit.options);
    FAIL() << "a kernel was found";
  } catch (const std::exception &error) {
    EXPECT_NE(std::string(error.what()).find("the CUDA backend has no kernel for operator LSTM"),
              std::string::npos)
        << error.what();
  }
}

} // namespace pdc
