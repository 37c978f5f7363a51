#include "compiler/devices/LibraryAnswer.h"
#include "runtime/kernels/ConvolutionDescription.h"
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

/// Every thread count and exactness that a plan may ask for, and every width of vectors that this
/// machine has.
template <class Check> void withDevices(Check check) {
  for (bool exact : {true, false})
    for (int threads : {1, 2})
      for (int width : {16, 8})
        if (const DeviceOptions options{exact, threads, width}; canAskLibrary(options))
          check(options);
}

} // namespace

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

/// Each channel of a line by itself: all three products, the first two by fast kernels.
TEST(Kernels, DepthwiseLines) {
  const int64_t channels = 40, size = 21;
  for (int64_t kernel : {3, 15, 31})
    for (int64_t stride : {1, 2})
      withDevices([&](DeviceOptions options) {
        const int64_t pad = kernel / 2, made = (size - 1) / stride + 1;
        const std::vector<int64_t> x = {2, channels, size}, y = {2, channels, made},
                                   w = {channels, 1, kernel};
        Attributes attributes = {{"group", channels},
                                 {"kernel_shape", std::vector<int64_t>{kernel}},
                                 {"strides", std::vector<int64_t>{stride}},
                                 {"pads", std::vector<int64_t>{pad, pad}}};
        auto check = [&](const char *op, const std::vector<int64_t> &a,
                         const std::vector<int64_t> &b) {
          UnitCase unit;
          unit.options = options;
          unit.node(op, {unit.operand(a), unit.operand(b)}, attributes);
          unit.check(6e-6);
        };
        check("Conv", x, w);
        check("ConvWeightGrad", y, x);
        attributes.set("input_shape", x);
        check("ConvInputGrad", y, w);
      });
}

TEST(Kernels, DepthwiseLinesAreFast) {
  auto expectFast = [](int64_t kernel, const char *layout) {
    using namespace runtime;
    ConvolutionFields f;
    f.groups = 48;
    f.input = f.output = {2, 48, 100};
    f.weight = {48, 1, kernel};
    f.strides = f.dilations = {1};
    f.padsBegin = f.padsEnd = {kernel / 2};
    f.inputLayout = f.outputLayout = layout;
    const auto forward = askLibrary(1, [&] {
      return describeConvolution({f, ConvolutionUse::forward}, true, false);
    });
    const auto inputGradient = askLibrary(1, [&] {
      return describeConvolutionInputGradient({f, ConvolutionUse::inputGradient});
    });
    ASSERT_TRUE(forward && inputGradient);
    EXPECT_EQ(forward->speed, Fallback::none) << layout;
    EXPECT_EQ(inputGradient->speed, Fallback::none) << layout;
  };
  withDevices([&](DeviceOptions options) {
    expectFast(9, options.vectorWidth == 16 ? "aBc16b" : "aBc8b");
    if (options.vectorWidth == 16)
      expectFast(31, "acb");
  });
}

TEST(Kernels, BiasGradient) {
  for (std::string layout : {"", "aBcd16b", "aBcd8b"}) {
    UnitCase unit;
    unit.node("ConvBiasGrad", {unit.operand({3, 37, 5, 7}, -1, 1, layout)});
    unit.check();
    EXPECT_EQ(unit.choice.inputLayouts[0], layout);
  }
}

} // namespace pdc
