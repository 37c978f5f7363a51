#include "testsuite/kernels/UnitCase.h"

#include <gtest/gtest.h>

namespace pdc {

namespace {

struct ConvolutionShape {
  int64_t batch, in, size, out, kernel, stride, pad, dilation, groups;
};

std::vector<ConvolutionShape> convolutionShapes() {
  return {
      {2, 3, 12, 20, 3, 1, 1, 1, 1},  {2, 1, 14, 6, 5, 1, 2, 1, 1},  {3, 6, 9, 16, 5, 1, 0, 1, 1},
      {2, 32, 8, 48, 3, 1, 1, 1, 1},  {2, 20, 7, 50, 3, 2, 1, 1, 1}, {2, 17, 6, 33, 1, 1, 0, 1, 1},
      {2, 64, 8, 32, 1, 2, 0, 1, 1},  {1, 16, 9, 16, 3, 1, 2, 2, 1}, {2, 32, 6, 32, 3, 1, 1, 1, 2},
      {2, 32, 6, 32, 3, 1, 1, 1, 32}, {2, 12, 6, 18, 3, 1, 1, 1, 3}, {2, 10, 8, 10, 3, 1, 1, 1, 10},
      {2, 64, 9, 64, 3, 1, 1, 1, 1},  {2, 3, 23, 16, 7, 2, 3, 1, 1}, {2, 8, 5, 3, 1, 1, 0, 1, 1}};
}

Attributes attributesOf(const ConvolutionShape &s) {
  return {{"group", s.groups},
          {"kernel_shape", std::vector<int64_t>{s.kernel, s.kernel}},
          {"strides", std::vector<int64_t>{s.stride, s.stride}},
          {"dilations", std::vector<int64_t>{s.dilation, s.dilation}},
          {"pads", std::vector<int64_t>{s.pad, s.pad, s.pad, s.pad}}};
}

std::vector<int64_t> outputOf(const ConvolutionShape &s) {
  int64_t size = (s.size + 2 * s.pad - (s.kernel - 1) * s.dilation - 1) / s.stride + 1;
  return {s.batch, s.out, size, size};
}

/// Every width of vectors, thread count and exactness that a plan may ask for.
template <class Check> void withDevices(Check check) {
  for (bool exact : {true, false})
    for (int threads : {1, 2})
      for (int width : {16, 8})
        check(DeviceOptions{exact, threads, width});
}

TEST(Kernels, Convolution) {
  for (const ConvolutionShape &s : convolutionShapes())
    for (bool bias : {false, true})
      withDevices([&](DeviceOptions options) {
        UnitCase unit;
        unit.options = options;
        std::vector<UnitValue> inputs = {
            unit.operand({s.batch, s.in, s.size, s.size}),
            unit.operand({s.out, s.in / s.groups, s.kernel, s.kernel})};
        if (bias)
          inputs.push_back(unit.operand({s.out}));
        UnitValue y = unit.node("Conv", inputs, attributesOf(s));
        if (bias)
          unit.node("Relu", {y});
        unit.check(4e-6);
      });
}

TEST(Kernels, ConvolutionInputGradient) {
  for (const ConvolutionShape &s : convolutionShapes())
    withDevices([&](DeviceOptions options) {
      UnitCase unit;
      unit.options = options;
      Attributes attributes = attributesOf(s);
      attributes.set("input_shape", std::vector<int64_t>{s.batch, s.in, s.size, s.size});
      unit.node(
          "ConvInputGrad",
          {unit.operand(outputOf(s)), unit.operand({s.out, s.in / s.groups, s.kernel, s.kernel})},
          attributes);
      unit.check(4e-6);
    });
}

TEST(Kernels, ConvolutionWeightGradient) {
  for (const ConvolutionShape &s : convolutionShapes())
    withDevices([&](DeviceOptions options) {
      UnitCase unit;
      unit.options = options;
      unit.node("ConvWeightGrad",
                {unit.operand(outputOf(s)), unit.operand({s.batch, s.in, s.size, s.size})},
                attributesOf(s));
      unit.check(6e-6);
    });
}

TEST(Kernels, ConvolutionOfOtherRanks) {
  for (size_t rank : {1, 3}) {
    UnitCase unit;
    std::vector<int64_t> x = {2, 20}, w = {18, 20};
    for (size_t d = 0; d < rank; ++d)
      x.push_back(6), w.push_back(3);
    std::vector<int64_t> pads(2 * rank, 1);
    pads[0] = 0;
    unit.node("Conv", {unit.operand(x), unit.operand(w)}, {{"pads", pads}});
    unit.check(4e-6);
  }
}

TEST(Kernels, BiasGradient) {
  for (std::string layout : {"", "aBcd16b", "aBcd8b"}) {
    UnitCase unit;
    unit.node("ConvBiasGrad", {unit.operand({3, 37, 5, 7}, -1, 1, layout)});
    unit.check();
    EXPECT_EQ(unit.choice.inputLayouts[0], layout);
  }
}

TEST(Kernels, MatrixProduct) {
  for (auto [m, k, n] : {std::tuple{4, 5, 6}, {64, 84, 10}, {32, 100, 33}, {1, 7, 1}})
    for (int64_t transA : {0, 1})
      for (int64_t transB : {0, 1})
        for (int form : {0, 1, 2, 3}) {
          UnitCase unit;
          std::vector<UnitValue> inputs = {
              unit.operand(transA ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k}),
              unit.operand(transB ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n})};
          if (form > 0)
            inputs.push_back(
                unit.operand(form == 1 ? std::vector<int64_t>{n} : std::vector<int64_t>{m, n}));
          UnitValue y =
              unit.node("Gemm", inputs, {{"transA", transA}, {"transB", transB}, {"alpha", 0.5}});
          if (form == 3)
            unit.node("Relu", {y});
          unit.check();
        }
}

TEST(Kernels, BatchedMatrixProduct) {
  struct Shapes {
    std::vector<int64_t> a, b;
  };
  for (const auto &[a, b] : std::vector<Shapes>{{{2, 3, 4, 5}, {2, 3, 5, 6}},
                                                {{2, 4, 5}, {5, 6}},
                                                {{3, 1, 4, 5}, {1, 2, 5, 6}},
                                                {{5}, {5, 6}},
                                                {{4, 5}, {5}}}) {
    UnitCase unit;
    unit.node("MatMul", {unit.operand(a), unit.operand(b)});
    unit.check();
  }
  UnitCase unit;
  UnitValue y = unit.node("MatMul", {unit.operand({3, 4, 5}), unit.operand({5, 6})});
  unit.node("Relu", {unit.node("Add", {y, unit.operand({6})})});
  unit.check();
}

TEST(Kernels, MaxPoolingAndGradient) {
  for (int64_t channels : {16, 6, 40})
    for (auto [kernel, stride, pad, ceil] :
         {std::tuple{2, 2, 0, 0}, {3, 2, 1, 0}, {3, 2, 0, 1}, {5, 3, 2, 1}}) {
      UnitCase unit;
      Attributes attributes = {{"kernel_shape", std::vector<int64_t>{kernel, kernel}},
                               {"strides", std::vector<int64_t>{stride, stride}},
                               {"pads", std::vector<int64_t>(4, pad)},
                               {"ceil_mode", int64_t(ceil)}};
      std::vector<int64_t> shape = {2, channels, 9, 10};
      UnitValue y = unit.node("MaxPool", {unit.operand(shape)}, attributes, 2);
      unit.result(y);
      unit.result(UnitValue::node(y.index, 1));
      unit.check();

      UnitCase gradient(2);
      attributes.set("input_shape", shape);
      const UnitNode &forward = unit.view.nodes[0];
      UnitValue dy = gradient.operand(forward.outputs[0].shape);
      // The reference scatters by indices: those of the forward pass.
      std::vector<Tensor> results = unit.referenceOf(0);
      gradient.storedOperands = {{}, unit.stored[1]};
      gradient.node("MaxPoolGrad", {dy, gradient.given(results[1])}, attributes);
      gradient.check();
    }
}

TEST(Kernels, AveragePoolingAndGradient) {
  for (int64_t channels : {16, 6})
    for (int64_t counted : {0, 1})
      for (auto [kernel, stride, pad] : {std::tuple{2, 2, 0}, {3, 2, 1}}) {
        Attributes attributes = {{"kernel_shape", std::vector<int64_t>{kernel, kernel}},
                                 {"strides", std::vector<int64_t>{stride, stride}},
                                 {"pads", std::vector<int64_t>(4, pad)},
                                 {"count_include_pad", counted}};
        UnitCase unit;
        unit.node("AveragePool", {unit.operand({2, channels, 9, 9})}, attributes);
        unit.check();
        UnitCase gradient;
        attributes.set("input_shape", std::vector<int64_t>{2, channels, 9, 9});
        gradient.node("AveragePoolGrad", {gradient.operand(unit.view.nodes[0].outputs[0].shape)},
                      attributes);
        gradient.check();
      }
  UnitCase global, gradient;
  global.node("GlobalAveragePool", {global.operand({2, 33, 7, 7})});
  global.check();
  gradient.node("GlobalAveragePoolGrad", {gradient.operand({2, 33, 1, 1})},
                {{"input_shape", std::vector<int64_t>{2, 33, 7, 7}}});
  gradient.check();
}

TEST(Kernels, BatchNormalization) {
  for (std::vector<int64_t> shape :
       {std::vector<int64_t>{4, 35, 5, 6}, {2, 16, 1, 1}, {8, 37}, {3, 20, 9}})
    for (bool relu : {false, true}) {
      UnitCase unit;
      unit.options.threads = 2;
      int64_t c = shape[1];
      UnitValue y = unit.node("BatchNormInternal",
                              {unit.operand(shape, 2, 5), unit.operand({c}, 0.5, 2),
                               unit.operand({c}), unit.operand({c}), unit.operand({c}, 0.5, 2)},
                              {{"epsilon", 1e-5}, {"momentum", 0.9}}, 5);
      UnitValue last = relu ? unit.node("Relu", {y}) : y;
      if (!relu)
        unit.result(y);
      for (int r = 1; r < 5; ++r)
        unit.result(UnitValue::node(y.index, r));
      if (relu)
        unit.result(last);
      unit.check(1e-5);
      UnitCase inference;
      UnitValue z =
          inference.node("BatchNormalization",
                         {inference.operand(shape), inference.operand({c}), inference.operand({c}),
                          inference.operand({c}), inference.operand({c}, 0.5, 2)},
                         {{"epsilon", 1e-5}});
      if (relu)
        inference.node("Relu", {z});
      inference.check();
    }
}

TEST(Kernels, BatchNormalizationGradient) {
  for (std::vector<int64_t> shape : {std::vector<int64_t>{4, 35, 5, 6}, {8, 37}})
    for (bool relu : {false, true}) {
      UnitCase unit;
      unit.options.threads = 2;
      int64_t c = shape[1];
      UnitValue dy = unit.operand(shape);
      if (relu)
        dy = unit.node("ReluGrad", {dy, unit.operand(shape)});
      UnitValue dx = unit.node("BatchNormalizationGrad",
                               {dy, unit.operand(shape), unit.operand({c}, 0.5, 2),
                                unit.operand({c}, -0.1, 0.1), unit.operand({c}, 1, 2)},
                               {}, 3);
      for (int r = 0; r < 3; ++r)
        unit.result(UnitValue::node(dx.index, r));
      unit.check(1e-5);
    }
}

TEST(Kernels, LocalResponse) {
  for (int64_t size : {5, 4, 1})
    for (double beta : {0.75, 0.6}) {
      Attributes attributes = {{"size", size}, {"alpha", 0.1}, {"beta", beta}, {"bias", 1.5}};
      UnitCase unit, gradient;
      unit.node("LRN", {unit.operand({2, 9, 4, 5})}, attributes);
      unit.check();
      UnitValue dy = gradient.operand({2, 9, 4, 5}), x = gradient.operand({2, 9, 4, 5});
      gradient.node("LRNGrad", {dy, x, gradient.operand({2, 9, 4, 5})}, attributes);
      gradient.check();
    }
}

TEST(Kernels, Dropout) {
  for (std::string layout : {"", "aBcd16b"}) {
    UnitCase unit;
    unit.node("Dropout",
              {unit.operand({3, 20, 4, 5}, -1, 1, layout), unit.integers({5}, 0, 1 << 30)},
              {{"ratio", 0.3}, {"key", int64_t(-77777777777)}});
    unit.check();
    EXPECT_EQ(unit.choice.inputLayouts[0], layout);
  }
}

TEST(Kernels, CrossEntropy) {
  for (std::vector<int64_t> shape : {std::vector<int64_t>{8, 10}, {2, 5, 3, 4}})
    for (bool weighted : {false, true}) {
      std::vector<int64_t> labels = shape;
      labels.erase(labels.begin() + 1);
      Attributes attributes = {{"reduction", std::string("sum")}, {"ignore_index", int64_t(2)}};
      UnitCase unit, gradient(3), correct(4), weight(5);
      std::vector<UnitValue> inputs = {unit.operand(shape, -3, 3),
                                       unit.integers(labels, 0, shape[1] - 1)};
      if (weighted)
        inputs.push_back(unit.operand({shape[1]}, 0, 1));
      UnitValue loss = unit.node("SoftmaxCrossEntropyLoss", inputs, attributes, 2);
      unit.result(loss);
      unit.result(UnitValue::node(loss.index, 1));
      unit.check();
      inputs = {gradient.operand({}), gradient.operand(shape, -4, 0),
                gradient.integers(labels, 0, shape[1] - 1)};
      if (weighted)
        inputs.push_back(gradient.operand({shape[1]}, 0, 1));
      gradient.node("SoftmaxCrossEntropyLossGrad", inputs, attributes);
      gradient.check();
      correct.node("CorrectPredictions", {correct.operand(shape), correct.integers(labels, 0, 4)},
                   attributes);
      correct.check();
      weight.node("LossWeight", {weight.integers(labels, 0, 4)}, attributes);
      weight.check();
    }
}

TEST(Kernels, OtherLosses) {
  for (std::string kind :
       {"MeanSquaredError", "MeanAbsoluteError", "BinaryCrossEntropyWithLogits"}) {
    UnitCase unit, gradient;
    unit.node(kind, {unit.operand({7, 9}), unit.operand({7, 9}, 0, 1)});
    unit.check();
    UnitValue x = gradient.operand({7, 9}), t = gradient.operand({7, 9}, 0, 1);
    gradient.node(kind + "Grad", {x, t, gradient.operand({})});
    gradient.check();
  }
}

TEST(Kernels, Softmax) {
  for (std::string kind : {"Softmax", "LogSoftmax"})
    for (int64_t axis : {-1, 1, 0}) {
      UnitCase unit, gradient;
      unit.node(kind, {unit.operand({3, 4, 5}, -3, 3)}, {{"axis", axis}});
      unit.check();
      UnitValue dy = gradient.operand({3, 4, 5});
      gradient.node(kind + "Grad", {dy, gradient.operand({3, 4, 5}, -2, 0)}, {{"axis", axis}});
      gradient.check();
    }
}

TEST(Kernels, Reorder) {
  for (std::string from : {"", "ABcd16b16a"})
    for (std::string to : {"ABcd16a16b", "Acdb16a", "ABcd8b8a"}) {
      UnitCase unit;
      unit.node("Reorder", {unit.operand({20, 33, 3, 3}, -1, 1, from)}, {{"layout", to}});
      unit.check(0);
    }
}

TEST(Kernels, BroadcastAndReduction) {
  for (std::string op : {"Add", "Sub", "Mul", "Div", "Max", "Min"}) {
    UnitCase unit;
    UnitValue a = unit.operand({2, 3, 4, 5});
    unit.node(op, {a, unit.operand({3, 1, 5}, 1, 2)});
    unit.check();
  }
  for (std::vector<int64_t> axes : {std::vector<int64_t>{0}, {1, 3}, {0, 1, 2, 3}}) {
    UnitCase unit;
    UnitValue x = unit.operand({2, 3, 4, 5});
    unit.node("ReduceSum", {x, unit.constant(Tensor::vector(axes))}, {{"keepdims", int64_t(0)}});
    unit.check();
  }
  UnitCase columns, mean;
  UnitValue x = columns.operand({33, 50});
  columns.node("ReduceSum", {x, columns.constant(Tensor::vector({0}))}, {{"keepdims", int64_t(0)}});
  columns.check();
  mean.node("ReduceMean", {mean.operand({4, 5, 6})}, {{"axes", std::vector<int64_t>{1, 2}}});
  mean.check();
}

/// Large enough for threads, which must not show in the bits.
TEST(Kernels, MovementBitsDoNotDependOnThreads) {
  auto bits = [](int threads, auto build) {
    UnitCase unit;
    unit.options.threads = threads;
    build(unit);
    unit.check();
    return unit.stored;
  };
  auto same = [&](auto build) { EXPECT_EQ(bits(1, build), bits(2, build)); };
  same([](UnitCase &u) {
    UnitValue a = u.operand({5, 60, 7, 31});
    u.node("Mul", {a, u.operand({60, 1, 31}, 1, 2)});
  });
  same([](UnitCase &u) {
    u.node("Transpose", {u.operand({50, 31, 47})}, {{"perm", std::vector<int64_t>{2, 0, 1}}});
  });
  same([](UnitCase &u) {
    UnitValue x = u.operand({210, 230});
    u.node("Pad", {x, u.constant(Tensor::vector({1, -1, 2, 3}))});
  });
  for (std::vector<int64_t> axes : {std::vector<int64_t>{0}, {1}, {0, 1}, {0, 2}})
    same([&](UnitCase &u) {
      UnitValue x = u.operand({40, 50, 30});
      u.node("ReduceSum", {x, u.constant(Tensor::vector(axes))}, {{"keepdims", int64_t(0)}});
    });
}

TEST(Kernels, Movement) {
  auto check = [](auto build) {
    UnitCase unit;
    build(unit);
    unit.check(0);
  };
  check([](UnitCase &u) {
    u.node("Transpose", {u.operand({2, 3, 4})}, {{"perm", std::vector<int64_t>{2, 0, 1}}});
  });
  check([](UnitCase &u) {
    UnitValue a = u.operand({2, 3, 4}), b = u.operand({2, 1, 4});
    u.node("Concat", {a, b, u.operand({2, 2, 4})}, {{"axis", int64_t(1)}});
  });
  check([](UnitCase &u) {
    UnitValue x = u.operand({5, 6, 7});
    u.node("Slice", {x, u.constant(Tensor::vector({1, -1})), u.constant(Tensor::vector({4, -8})),
                     u.constant(Tensor::vector({0, 2})), u.constant(Tensor::vector({2, -3}))});
  });
  check([](UnitCase &u) {
    UnitValue dy = u.operand({2, 6, 7});
    u.node("SliceGrad", {dy, u.constant(Tensor::vector({5, 6, 7})), u.constant(Tensor::vector({1})),
                         u.constant(Tensor::vector({4})), u.constant(Tensor::vector({0})),
                         u.constant(Tensor::vector({2}))});
  });
  check([](UnitCase &u) {
    UnitValue x = u.operand({3, 4});
    u.node("Pad", {x, u.constant(Tensor::vector({1, -1, 2, 3})),
                   u.constant(Tensor::scalar(ElementType::f32, 0.5))});
  });
  check([](UnitCase &u) {
    UnitValue dy = u.operand({6, 6});
    u.node("PadGrad", {dy, u.constant(Tensor::vector({1, -1, 2, 3}))},
           {{"input_shape", std::vector<int64_t>{3, 4}}});
  });
  check([](UnitCase &u) {
    UnitValue x = u.operand({3, 1});
    u.node("Expand", {x, u.constant(Tensor::vector({2, 3, 4}))});
  });
  check([](UnitCase &u) {
    UnitValue x = u.operand({3, 5, 2});
    u.node("Gather", {x, u.integers({4}, -5, 4)}, {{"axis", int64_t(1)}});
  });
}

TEST(Kernels, GatherGradient) {
  UnitCase unit;
  UnitValue shape = unit.constant(Tensor::vector({6, 3})), indices = unit.integers({2, 4}, 0, 5);
  unit.node("GatherGrad", {shape, indices, unit.operand({2, 4, 3})});
  unit.check();
}

TEST(Kernels, Updates) {
  for (std::string layout : {"", "ABcd16b16a"})
    for (double step : {1.0, 7.0})
      for (int64_t flag : {0, 1}) {
        std::vector<int64_t> shape = {20, 18, 3, 3};
        auto scalars = [&](UnitCase &u, std::vector<UnitValue> inputs, bool steps) {
          for (double value : {0.25, 0.1})
            inputs.push_back(u.given(Tensor::scalar(ElementType::f32, value)));
          if (steps)
            inputs.push_back(u.given(Tensor::scalar(ElementType::f32, step)));
          return inputs;
        };
        auto tensor = [&](UnitCase &u, double from = -1) {
          return u.operand(shape, from, 1, layout);
        };
        UnitCase sgd, momentum, adam;
        auto w = tensor(sgd), g = tensor(sgd);
        sgd.node("SgdUpdate", scalars(sgd, {w, g}, false), {{"weight_decay", 0.01}});
        sgd.check();
        w = tensor(momentum), g = tensor(momentum);
        auto v = tensor(momentum);
        UnitValue next = momentum.node(
            "MomentumUpdate", scalars(momentum, {w, g, v}, true),
            {{"weight_decay", 0.01}, {"momentum", 0.9}, {"dampening", 0.1}, {"nesterov", flag}}, 2);
        momentum.result(next), momentum.result(UnitValue::node(next.index, 1));
        momentum.check();
        w = tensor(adam), g = tensor(adam);
        auto m = tensor(adam);
        v = tensor(adam, 0.1);
        next = adam.node("AdamUpdate", scalars(adam, {w, g, m, v}, true),
                         {{"weight_decay", 0.01},
                          {"beta1", 0.9},
                          {"beta2", 0.999},
                          {"epsilon", 1e-8},
                          {"decoupled", flag}},
                         3);
        for (int r = 0; r < 3; ++r)
          adam.result(UnitValue::node(next.index, r));
        adam.check();
      }
}

} // namespace

} // namespace pdc
