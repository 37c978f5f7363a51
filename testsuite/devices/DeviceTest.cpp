#include "compiler/devices/Device.h"
#include "compiler/devices/LoopCalls.h"
#include "compiler/operators/Operator.h"
#include "testsuite/Refusal.h"

#include <gtest/gtest.h>
#include <numeric>

namespace pdc {

namespace {

const DeviceOptions kDevice{true, 1, 16};

TensorType f32(std::vector<int64_t> shape) { return {ElementType::f32, std::move(shape)}; }

/// A unit of one node over operands of these shapes.
struct OneNode {
  Attributes attributes;
  UnitView unit;
  OneNode(std::string_view op, std::vector<TensorType> operands, TensorType result,
          Attributes given = {})
      : attributes(std::move(given)) {
    UnitNode node{op, op, &attributes, {}, {std::move(result)}};
    for (TensorType &type : operands) {
      node.inputs.push_back(UnitValue::operand(static_cast<int>(unit.operands.size())));
      unit.operands.push_back(std::move(type));
      unit.operandLayouts.push_back("");
    }
    unit.name = op;
    unit.nodes = {node};
    unit.results = {UnitValue::node(0)};
  }
};

} // namespace

TEST(Layouts, BytesWithPadding) {
  EXPECT_EQ(bytesInLayout(f32({2, 20, 3, 3}), "aBcd16b"), 2 * 32 * 9 * 4);
  EXPECT_EQ(bytesInLayout(f32({2, 20, 3, 3}), ""), 2 * 20 * 9 * 4);
  EXPECT_EQ(bytesInLayout(f32({20, 3, 3, 3}), "Acdb16a"), 32 * 27 * 4);
  EXPECT_EQ(bytesInLayout(f32({20, 33, 3, 3}), "ABcd16b16a"), 32 * 48 * 9 * 4);
  EXPECT_EQ(bytesInLayout({ElementType::i64, {2, 20, 3, 3}}, "u8:aBcd16b"), 2 * 32 * 9);
  EXPECT_EQ(bytesInLayout({ElementType::i64, {5}}, "i32:"), 20);
  EXPECT_THROW(bytesInLayout(f32({2, 3}), "aBcd16b"), Error);
  EXPECT_THROW(bytesInLayout(f32({2, 3, 4, 4}), "aBcd16x"), Error);
  EXPECT_THROW(bytesInLayout(f32({2, 3, 4, 4}), "u7:aBcd16b"), Error);
}

TEST(Layouts, RowMajorInDisguise) {
  EXPECT_TRUE(isRowMajor(f32({2, 64, 1, 1}), "aBcd16b"));
  EXPECT_FALSE(isRowMajor(f32({2, 60, 1, 1}), "aBcd16b"));
  EXPECT_FALSE(isRowMajor(f32({2, 64, 2, 1}), "aBcd16b"));
  EXPECT_TRUE(isRowMajor(f32({2, 60, 7, 7}), ""));
  EXPECT_TRUE(isRowMajor(f32({2, 1, 7, 7}), "acdb"));
  EXPECT_FALSE(isRowMajor(f32({2, 3, 7, 7}), "acdb"));
  EXPECT_FALSE(isRowMajor({ElementType::i64, {2, 3}}, "u8:"));
}

TEST(Fusion, HeroesTakeTheirEpilogues) {
  TensorType x = f32({2, 16, 8, 8}), w = f32({32, 16, 1, 1}), y = f32({2, 32, 8, 8});
  OneNode conv("Conv", {x, w}, y);
  UnitNode relu{"Relu", "relu", nullptr, {UnitValue::node(0)}, {y}};
  UnitNode sigmoid{"Sigmoid", "sigmoid", nullptr, {UnitValue::node(0)}, {y}};
  EXPECT_TRUE(canAppend(conv.unit, relu, kDevice));
  EXPECT_FALSE(canAppend(conv.unit, sigmoid, kDevice));
  conv.unit.nodes.push_back(relu);
  UnitNode again{"Relu", "relu2", nullptr, {UnitValue::node(1)}, {y}};
  EXPECT_FALSE(canAppend(conv.unit, again, kDevice));
}

TEST(Fusion, ChainsOfEqualShapes) {
  TensorType y = f32({2, 32});
  OneNode sum("Add", {y, y}, y);
  UnitNode relu{"Relu", "relu", nullptr, {UnitValue::node(0)}, {y}};
  EXPECT_TRUE(canAppend(sum.unit, relu, kDevice));
  UnitNode conv{"Conv", "conv", nullptr, {UnitValue::node(0)}, {y}};
  EXPECT_FALSE(canAppend(sum.unit, conv, kDevice));
  OneNode broadcast("Add", {y, f32({32})}, y);
  EXPECT_TRUE(canAppend(broadcast.unit, relu, kDevice));
  UnitNode wider{"Relu", "relu", nullptr, {UnitValue::node(0)}, {f32({3, 2, 32})}};
  EXPECT_FALSE(canAppend(sum.unit, wider, kDevice));
}

/// Its strides are listed per operand: more of them than dimensions of any tensor.
TEST(Fusion, ManyRepeatedOperands) {
  TensorType y = f32({2, 16, 5, 6});
  OneNode first("Add", {y, f32({2, 16, 1, 1})}, y);
  UnitView unit = first.unit;
  for (int i = 0; i < 4; ++i) {
    unit.operands.push_back(i % 2 ? f32({1, 16, 1, 1}) : f32({2, 1, 5, 1}));
    unit.operandLayouts.push_back("");
    unit.nodes.push_back(
        {"Add", "add", nullptr, {UnitValue::node(i), UnitValue::operand(2 + i)}, {y}});
  }
  unit.results = {UnitValue::node(4)};
  EXPECT_EQ(chooseKernel(unit, kDevice).kernel, "Broadcast");
}

TEST(Fusion, BiasBehindAMatrixProduct) {
  TensorType y = f32({4, 6});
  OneNode product("MatMul", {f32({4, 5}), f32({5, 6})}, y);
  UnitView extended = product.unit;
  extended.operands.push_back(f32({6}));
  UnitNode add{"Add", "add", nullptr, {UnitValue::node(0), UnitValue::operand(2)}, {y}};
  EXPECT_TRUE(canAppend(extended, add, kDevice));
  extended.operands[2] = f32({4, 1});
  EXPECT_FALSE(canAppend(extended, add, kDevice));
}

TEST(Fusion, ReluGradientGoesIntoTheNormalisationsGradient) {
  TensorType x = f32({2, 16, 8, 8});
  const UnitView unit;
  UnitNode relu{"ReluGrad", "relu", nullptr, {}, {x}};
  UnitNode norm{"BatchNormalizationGrad", "norm", nullptr, {}, {x}};
  UnitNode conv{"ConvInputGrad", "conv", nullptr, {}, {x}};
  EXPECT_TRUE(canPrepend(unit, relu, norm, 0, false, kDevice));
  EXPECT_FALSE(canPrepend(unit, relu, norm, 1, false, kDevice));
  EXPECT_FALSE(canPrepend(unit, relu, conv, 0, false, kDevice));
}

/// A convolution of fp16 whose result others read, too, goes into the normalisation's kernel.
TEST(Fusion, ConvolutionGoesIntoTheNormalisation) {
  DeviceOptions gpu;
  gpu.kind = DeviceKind::cuda, gpu.precision = Precision::fp16;
  auto half = [](std::vector<int64_t> shape) {
    return TensorType{ElementType::f16, std::move(shape)};
  };
  const TensorType y = half({2, 16, 4, 4});
  const UnitNode norm{"BatchNormInternal", "norm", nullptr, {}, {y}};
  auto isPrologue = [&](std::vector<TensorType> operands, const DeviceOptions &options,
                        bool isKept = true) {
    const OneNode conv("Conv", std::move(operands), y);
    return canPrepend(conv.unit, conv.unit.nodes[0], norm, 0, isKept, options);
  };
  const std::vector<TensorType> plain = {half({2, 8, 4, 4}), half({16, 8, 3, 3})};
  EXPECT_TRUE(isPrologue(plain, gpu));
  EXPECT_FALSE(isPrologue(plain, gpu, false)); // the kernel writes it
  EXPECT_FALSE(isPrologue(plain, kDevice));
  EXPECT_FALSE(isPrologue({half({2, 8, 4, 4}), half({16, 8, 3, 3}), f32({16})}, gpu));
  EXPECT_FALSE(isPrologue({half({2, 20, 4, 4}), half({16, 20, 3, 3})}, gpu));
  EXPECT_FALSE(isPrologue({half({2, 16, 4, 4}), half({16, 8, 3, 3})}, gpu)); // two groups
  EXPECT_FALSE(isPrologue({half({2, 8, 10, 10}), half({16, 8, 7, 7})}, gpu));
  EXPECT_FALSE(isPrologue({f32({2, 8, 4, 4}), f32({16, 8, 3, 3})}, gpu));
  DeviceOptions other = gpu;
  other.exact = true;
  EXPECT_FALSE(isPrologue(plain, other));
  other = gpu, other.precision = Precision::bf16;
  EXPECT_FALSE(isPrologue(plain, other));
}

/// Scores and their gradient in 16 bits, on GPUs: products widen, losses read and round.
TEST(Fusion, CastsBesideLosses) {
  DeviceOptions gpu;
  gpu.kind = DeviceKind::cuda, gpu.precision = Precision::bf16;
  const TensorType wide = f32({4, 6}), narrow{ElementType::bf16, {4, 6}},
                   labels{ElementType::i64, {4}}, whole{ElementType::i32, {4, 6}};
  UnitNode loss{"SoftmaxCrossEntropyLoss", "loss", nullptr, {}, {f32({}), wide}};
  OneNode gradient("SoftmaxCrossEntropyLossGrad", {wide, f32({4, 2}), labels, f32({})}, wide);
  for (const TensorType &from : {narrow, whole})
    for (const UnitNode &hero : {loss, gradient.unit.nodes[0]}) {
      OneNode cast("Cast", {from}, wide);
      EXPECT_EQ(canPrepend(cast.unit, cast.unit.nodes[0], hero, 0, false, gpu), from == narrow);
      EXPECT_FALSE(canPrepend(cast.unit, cast.unit.nodes[0], hero, 0, false, kDevice));
    }
  OneNode product("MatMul", {f32({4, 5}), f32({5, 6})}, wide);
  UnitNode cast{"Cast", "cast", nullptr, {UnitValue::node(0)}, {narrow}};
  EXPECT_TRUE(canAppend(gradient.unit, cast, gpu));
  EXPECT_FALSE(canAppend(gradient.unit, cast, kDevice));
  EXPECT_FALSE(canAppend(product.unit, cast, gpu));
}

TEST(Choice, LoopsFollowBlockedOperandsWherePaddingStaysZero) {
  TensorType x = f32({2, 20, 4, 4});
  OneNode sum("Add", {x, x}, x);
  sum.unit.operandLayouts = {"", "aBcd16b"};
  KernelChoice choice = chooseKernel(sum.unit, kDevice);
  EXPECT_EQ(choice.kernel, "Elementwise");
  EXPECT_EQ(choice.inputLayouts, (std::vector<std::string>{"aBcd16b", "aBcd16b"}));
  OneNode exponential("Exp", {x}, x);
  exponential.unit.operandLayouts = {"aBcd16b"};
  EXPECT_EQ(chooseKernel(exponential.unit, kDevice).inputLayouts[0], "");
  OneNode full("Exp", {f32({2, 32, 4, 4})}, f32({2, 32, 4, 4}));
  full.unit.operandLayouts = {"aBcd16b"};
  EXPECT_EQ(chooseKernel(full.unit, kDevice).inputLayouts[0], "aBcd16b");
}

/// Gates of channels: what is repeated has a stride for each block of channels and for each of its
/// channels, none for pixels.
TEST(Choice, RepeatedOperandsFollowTheImage) {
  const TensorType x = f32({2, 32, 4, 4}), odd = f32({2, 20, 4, 4});
  using Layouts = std::vector<std::string>;
  using Numbers = std::vector<int64_t>;
  OneNode gate("Mul", {f32({2, 32, 1, 1}), x}, x);
  gate.unit.operandLayouts = {"aBcd16b", "aBcd16b"};
  KernelChoice choice = chooseKernel(gate.unit, kDevice);
  EXPECT_EQ(choice.kernel, "Broadcast");
  EXPECT_EQ(choice.inputLayouts, (Layouts{"", "aBcd16b"}));
  EXPECT_EQ(choice.outputLayouts, (Layouts{"aBcd16b"}));
  EXPECT_EQ(choice.fields.integers("extents"), (Numbers{4, 16, 16}));
  EXPECT_EQ(choice.fields.integers("strides"), (Numbers{16, 0, 1, 256, 16, 1}));
  gate.unit.operandLayouts = {"", "acdb"};
  choice = chooseKernel(gate.unit, kDevice);
  EXPECT_EQ(choice.outputLayouts, (Layouts{"acdb"}));
  EXPECT_EQ(choice.fields.integers("extents"), (Numbers{2, 16, 32}));
  EXPECT_EQ(choice.fields.integers("strides"), (Numbers{32, 0, 1, 512, 32, 1}));
  OneNode padded("Mul", {odd, f32({20, 1, 1})}, odd);
  padded.unit.operandLayouts = {"aBcd16b", ""};
  EXPECT_EQ(chooseKernel(padded.unit, kDevice).inputLayouts, (Layouts{"", ""}));
}

TEST(Choice, TranspositionsOfChannelsAreViews) {
  const Attributes last = {{"perm", std::vector<int64_t>{0, 2, 3, 1}}},
                   second = {{"perm", std::vector<int64_t>{0, 3, 1, 2}}};
  OneNode out("Transpose", {f32({2, 20, 4, 5})}, f32({2, 4, 5, 20}), last);
  EXPECT_EQ(chooseKernel(out.unit, kDevice).kernel, "StridedCopy");
  out.unit.operandLayouts = {"acdb"};
  KernelChoice choice = chooseKernel(out.unit, kDevice);
  EXPECT_EQ(choice.kernel + choice.inputLayouts[0] + choice.outputLayouts[0], "acdb");
  OneNode back("Transpose", {f32({2, 4, 5, 20})}, f32({2, 20, 4, 5}), second);
  choice = chooseKernel(back.unit, kDevice);
  EXPECT_EQ(choice.kernel + choice.inputLayouts[0] + choice.outputLayouts[0], "acdb");
  back.unit.operandLayouts = {"acdb"};
  EXPECT_EQ(chooseKernel(back.unit, kDevice).kernel, "StridedCopy");
  OneNode flags("Transpose", {{ElementType::boolean, {2, 4, 5, 20}}},
                {ElementType::boolean, {2, 20, 4, 5}}, second);
  EXPECT_EQ(chooseKernel(flags.unit, kDevice).kernel, "StridedCopy");
}

TEST(Choice, ViewsNeedRowMajorElements) {
  OneNode flatten("Flatten", {f32({2, 32, 4, 4})}, f32({2, 512}));
  flatten.unit.operandLayouts = {"aBcd16b"};
  EXPECT_EQ(chooseKernel(flatten.unit, kDevice).inputLayouts[0], "");
  OneNode pooled("Flatten", {f32({2, 32, 1, 1})}, f32({2, 32}));
  pooled.unit.operandLayouts = {"aBcd16b"};
  EXPECT_EQ(chooseKernel(pooled.unit, kDevice).inputLayouts[0], "aBcd16b");
}

/// The algorithm of a 3x3 convolution that keeps shapes, or of its weight gradient.
static std::string algorithmOf(std::string_view op, bool exact, int64_t batch, int64_t size,
                               int64_t channels) {
  TensorType x = f32({batch, channels, size, size}), w = f32({channels, channels, 3, 3});
  bool isGradient = op == "ConvWeightGrad";
  OneNode conv(op, {x, isGradient ? x : w}, isGradient ? w : x,
               {{"pads", std::vector<int64_t>(4, 1)}, {"input_shape", x.shape}});
  return chooseKernel(conv.unit, {exact, 1, 16}).fields.string("algorithm", "");
}

TEST(Choice, WinogradOnlyWhereBitsMayDiffer) {
  EXPECT_EQ(algorithmOf("Conv", true, 32, 16, 128), "direct");
  EXPECT_EQ(algorithmOf("Conv", false, 32, 16, 128), "winograd");
  EXPECT_EQ(algorithmOf("Conv", false, 32, 2, 512), "direct");
  EXPECT_EQ(algorithmOf("Conv", false, 32, 32, 16), "direct");
}

TEST(Choice, WinogradNeedsTilesToShareItsWeights) {
  for (std::string_view op : {"Conv", "ConvInputGrad"}) {
    EXPECT_EQ(algorithmOf(op, false, 8, 4, 512), "direct");
    EXPECT_EQ(algorithmOf(op, false, 16, 4, 512), "direct");
    EXPECT_EQ(algorithmOf(op, false, 32, 4, 512), "winograd");
    EXPECT_EQ(algorithmOf(op, false, 8, 8, 256), "winograd");
  }
  EXPECT_EQ(algorithmOf("ConvWeightGrad", false, 8, 4, 512), "direct");
  EXPECT_EQ(algorithmOf("ConvWeightGrad", false, 16, 4, 512), "winograd");
}

TEST(Choice, SlowConvolutionsAreSaid) {
  if (!__builtin_cpu_supports("avx512vl"))
    GTEST_SKIP() << "needs AVX-512";
  auto remark = [](int64_t dilation) {
    int64_t size = (8 - 2 * dilation) / 2 + 1;
    OneNode conv("ConvWeightGrad", {f32({2, 16, size, size}), f32({2, 16, 9, 9})},
                 f32({16, 16, 3, 3}),
                 {{"strides", std::vector<int64_t>(2, 2)},
                  {"dilations", std::vector<int64_t>(2, dilation)}});
    return chooseKernel(conv.unit, kDevice).remark;
  };
  EXPECT_EQ(remark(1), "");
  EXPECT_EQ(remark(2),
            "unit 'ConvWeightGrad' (ConvWeightGrad of 16 to 16 channels, kernel 3,3, strides 2,2, "
            "pads 0,0,0,0, dilations 2,2, groups 1): oneDNN has no fast kernel for this; it will "
            "run as im2col and matrix products, several times slower than usual");
}

TEST(Choice, RefusalsNameUnitAndShapes) {
  OneNode pool(
      "MaxPool", {f32({2, 16, 8, 8})}, f32({2, 16, 4, 4}),
      {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"dilations", std::vector<int64_t>{2, 2}}});
  EXPECT_EQ(refusal([&] { chooseKernel(pool.unit, kDevice); }),
            "unit 'MaxPool' (MaxPool on f32[2,16,8,8]): pooling with dilations has no kernel; "
            "supported is dilation 1");
  std::vector<int64_t> shape(17, 2), order(17);
  std::iota(order.rbegin(), order.rend(), 0);
  OneNode turned("Transpose", {f32(shape)}, f32(shape), {{"perm", order}});
  EXPECT_NE(refusal([&] {
              chooseKernel(turned.unit, kDevice);
            }).find("17 dimensions, and takes at most 12"),
            std::string::npos);
  std::vector<TensorType> many(17, f32({2, 3}));
  OneNode joined("Concat", many, f32({34, 3}), {{"axis", int64_t(0)}});
  EXPECT_EQ(chooseKernel(joined.unit, kDevice).kernel, "Concat");
  OneNode unknown("Shape", {f32({2, 16})}, {ElementType::i64, {2}});
  EXPECT_NE(refusal([&] { chooseKernel(unknown.unit, kDevice); }).find("no kernel for operator"),
            std::string::npos);
}

TEST(Device, NamesOfInstructionSets) {
  EXPECT_EQ(detectDevice("avx512").vectorWidth, 16);
  EXPECT_EQ(detectDevice("avx2").vectorWidth, 8);
  EXPECT_EQ(detectDevice("avx2").isa(), "avx2");
  EXPECT_THROW(detectDevice("sse"), Error);
}

/// Loops have exponentials, hyperbolic tangents and error functions as vectors; what a known
/// exponent makes a product calls nothing.
TEST(Functions, OfTheLibraryThatLoopsCall) {
  auto calls = [](std::string_view op, std::optional<double> last = std::nullopt) {
    return loopCalls(op, findOperator(op)->expressions[0], last).library > 0;
  };
  for (std::string_view op : {"Sigmoid", "Tanh", "Erf", "Exp", "Sqrt", "Add", "Relu", "Log", "Sin",
                              "Cos", "Atan", "Softplus", "Elu", "Pow"})
    EXPECT_FALSE(calls(op)) << op;
  for (std::string_view op : {"Tan", "Sinh", "Asin", "Acosh", "Atanh"})
    EXPECT_TRUE(calls(op)) << op;
  EXPECT_GT(loopCalls("Pow", findOperator("Pow")->expressions[0], 2.5).vectors, 0);
  EXPECT_EQ(loopCalls("Pow", findOperator("Pow")->expressions[0], 3).vectors, 0);
}

/// In the layout of the convolution. A line of one channel is an image like others.
TEST(Choice, DepthwiseLinesHaveAKernelOfTheirOwn) {
  auto chosen = [](int64_t channels, int64_t kernel, DeviceOptions options) {
    const std::vector<int64_t> image = {2, channels, 100};
    const OneNode node("ConvWeightGrad", {f32(image), f32(image)}, f32({channels, 1, kernel}),
                       {{"group", channels},
                        {"kernel_shape", std::vector<int64_t>{kernel}},
                        {"pads", std::vector<int64_t>{kernel / 2, kernel / 2}}});
    return chooseKernel(node.unit, options);
  };
  for (const int width : {16, 8}) {
    const KernelChoice wide = chosen(48, 31, {.vectorWidth = width});
    EXPECT_EQ(wide.kernel, "DepthwiseWeightGradient");
    ASSERT_EQ(wide.inputLayouts.size(), 2u);
    EXPECT_EQ(wide.inputLayouts[0], wide.inputLayouts[1]);
    EXPECT_NE(wide.inputLayouts[0], "");
    EXPECT_EQ(chosen(1, 31, {.vectorWidth = width}).kernel, "ConvolutionWeightGradient");
  }
}

TEST(Products, ArePlainWithoutWideVectors) {
  const OneNode product("MatMul", {f32({4, 8}), f32({8, 2})}, f32({4, 2}));
  EXPECT_FALSE(chooseKernel(product.unit, kDevice).multipliesPlain);
  EXPECT_TRUE(chooseKernel(product.unit, {true, 1, 8}).multipliesPlain);
  EXPECT_FALSE(
      chooseKernel(product.unit, {.vectorWidth = 8, .kind = DeviceKind::cuda}).multipliesPlain);
}

} // namespace pdc
