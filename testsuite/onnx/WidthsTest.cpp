#include "testsuite/onnx/ModelText.h"

#include <array>
#include <cmath>
#include <limits>

using namespace pdc;
using namespace pdc::testing;

/// Whatever the width of floating-point numbers in the file, they are f32.
TEST(Widths, areF32) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (double[2] x, float16[2] h) => (float[2] y)
    <float[2] half = {0, 0}, float[2] brain = {0, 0}, double[2] wide = {1.1, -2}> {
      c = Cast<to = 11>(h)
      d = Mul(x, c)
      e = Mul(d, wide)
      f = Cast<to = 10>(e)
      g = Mul(f, half)
      y = Mul(g, brain)
    })");
  auto store = [&](int tensor, onnx::TensorProto::DataType type, std::array<uint16_t, 2> bits) {
    onnx::TensorProto &initializer = *proto.mutable_graph()->mutable_initializer(tensor);
    initializer.set_data_type(type);
    initializer.clear_float_data();
    initializer.set_raw_data(bits.data(), sizeof bits);
  };
  store(0, onnx::TensorProto::FLOAT16, {0x3e00, 0xfc00});
  store(1, onnx::TensorProto::BFLOAT16, {0x3fc0, 0xc000});
  const Model model = read(proto);
  for (const ModelValue &input : model.inputs)
    EXPECT_EQ(input.element, ElementType::f32) << input.name;
  for (const ModelNode &node : model.nodes)
    EXPECT_EQ(node.attributes.integer("to", 1), onnx::TensorProto::FLOAT) << node.name;
  EXPECT_EQ(model.widths, (std::set{ElementType::f64, ElementType::f16, ElementType::bf16}));

  const std::map<std::string, std::vector<double>> expected = {
      {"half", {1.5, -INFINITY}}, {"brain", {1.5, -2}}, {"wide", {1.1f, -2}}};
  for (const auto &[name, values] : expected) {
    const Initializer &initializer = model.initializers.at(name);
    EXPECT_EQ(initializer.type, (TensorType{ElementType::f32, {2}}));
    EXPECT_EQ(readTensor(initializer).data, values);
    const std::vector<float> floats(values.begin(), values.end());
    EXPECT_EQ(readBytes(initializer),
              std::string(reinterpret_cast<const char *>(floats.data()), 8));
  }
}

/// Bounds of f64 stay numbers that zeros are multiplied by, and ones divided by.
TEST(Widths, boundsStayFinite) {
  const Model model = read(protoOf(std::string(header) + R"(
    net (double[4] x) => (double[4] y) <double[4] bounds = {-1.7976931348623157e308, 3e-308, 0, 3}> {
      y = Add(x, bounds)
    })"));
  const std::vector<double> expected = {-std::numeric_limits<float>::max(),
                                        std::numeric_limits<float>::min(), 0, 3};
  EXPECT_EQ(readTensor(model.initializers.at("bounds")).data, expected);
}

/// In f32 a quotient of 3 is a little more, and there would be four elements.
TEST(Widths, rangesOfF64) {
  const Model model = read(protoOf(std::string(header) + R"(
    net (double[3] x) => (double[3] y) <double start = {0}, double limit = {0.3}, double step = {0.1}> {
      r = Range(start, limit, step)
      y = Add(x, r)
    })"));
  EXPECT_EQ(readTensor(model.initializers.at("r")).data, (std::vector<double>{0, 0.1f, 0.2f}));
}
