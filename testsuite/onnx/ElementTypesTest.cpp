#include "testsuite/onnx/ModelText.h"

using namespace pdc;
using namespace pdc::testing;

using Type = onnx::TensorProto;

static onnx::TensorProto tensorOf(int type, const std::string &name) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(type);
  return tensor;
}

template <typename Stored>
static onnx::TensorProto rawTensor(int type, const std::vector<Stored> &values) {
  onnx::TensorProto tensor = tensorOf(type, "c");
  tensor.add_dims(static_cast<int64_t>(values.size()));
  tensor.set_raw_data(values.data(), values.size() * sizeof(Stored));
  return tensor;
}

static onnx::ModelProto reader() {
  return protoOf(std::string(header) + R"(
    net (float[3] x) => (float[3] y) { f = Cast<to = 1>(c)  y = Mul(x, f) })");
}

static std::vector<double> numbersOf(const onnx::TensorProto &tensor) {
  onnx::ModelProto proto = reader();
  *proto.mutable_graph()->add_initializer() = tensor;
  const Model model = read(proto);
  const Initializer &initializer = model.initializers.at("c");
  EXPECT_EQ(initializer.type.toString(), "i64[3]");
  return readTensor(initializer).data;
}

TEST(ElementTypes, constantsOfOtherWidths) {
  EXPECT_EQ(numbersOf(rawTensor<int16_t>(Type::INT16, {-32768, 0, 32767})),
            (std::vector<double>{-32768, 0, 32767}));
  EXPECT_EQ(numbersOf(rawTensor<uint16_t>(Type::UINT16, {0, 1, 65535})),
            (std::vector<double>{0, 1, 65535}));
  EXPECT_EQ(numbersOf(rawTensor<uint32_t>(Type::UINT32, {0, 1, 4294967295})),
            (std::vector<double>{0, 1, 4294967295}));
  EXPECT_EQ(numbersOf(rawTensor<uint64_t>(Type::UINT64, {0, 1, uint64_t(1) << 40})),
            (std::vector<double>{0, 1, 0x1p40}));
  for (int type : {Type::INT16, Type::UINT16, Type::UINT32, Type::UINT64}) {
    onnx::TensorProto typed = tensorOf(type, "c");
    typed.add_dims(3);
    for (int value : {7, 8, 9})
      type == Type::UINT32 || type == Type::UINT64
          ? typed.add_uint64_data(static_cast<uint64_t>(value))
          : typed.add_int32_data(value);
    EXPECT_EQ(numbersOf(typed), (std::vector<double>{7, 8, 9})) << type;
  }
}

/// In 16 bits 300 * 300 is 24464, in 64 it is 90000: neither directly nor behind what moves it.
TEST(ElementTypes, arithmeticThatMayWrap) {
  auto refusalOf = [](const std::string &nodes) {
    onnx::ModelProto proto = protoOf(std::string(header) + R"(
      net (float[3] x) => (float[3] y) { )" +
                                     nodes + " f = Cast<to = 1>(k)  y = Mul(x, f) }");
    *proto.mutable_graph()->add_initializer() = rawTensor<int16_t>(Type::INT16, {300, 2, 1});
    return refusal(proto);
  };
  const std::string expected =
      "computes in INT16, as 'c' is, which may wrap; expected INT64, INT32";
  EXPECT_TRUE(has(refusalOf("k = Mul(c, c)"), expected));
  EXPECT_TRUE(
      has(refusalOf("t = Transpose(c)  i = Identity(t)  k = Neg(i)"), "(Neg): " + expected));
  EXPECT_TRUE(has(refusalOf("k = CastLike(x, c)"), expected));
  EXPECT_EQ(refusalOf("k = Transpose(c)"), "");
  EXPECT_EQ(refusalOf("l = Cast<to = 7>(c)  k = Mul(l, l)"), "");
}

TEST(ElementTypes, constantsThatAreTooLarge) {
  onnx::ModelProto proto = reader();
  onnx::TensorProto &tensor = *proto.mutable_graph()->add_initializer();
  tensor = rawTensor<uint64_t>(Type::UINT64, {0, 1, UINT64_MAX});
  EXPECT_EQ(refusal(proto),
            "test.onnx: initializer 'c': the integer 18446744073709551615 exceeds int64");
  tensor.mutable_raw_data()->pop_back();
  EXPECT_TRUE(has(refusal(proto), "needs 24 bytes, but raw_data holds 23"));
}

TEST(ElementTypes, unsupportedOnesByTheirNames) {
  for (auto [type, name, advice] : {std::tuple(17, "FLOAT8E4M3FN", true),
                                    {22, "INT4", true},
                                    {26, "INT2", true},
                                    {int(Type::STRING), "STRING", false},
                                    {99, "99", false}}) {
    onnx::ModelProto proto = reader();
    *proto.mutable_graph()->add_initializer() = tensorOf(type, "c");
    const std::string text = refusal(proto);
    EXPECT_TRUE(has(text, "test.onnx: initializer 'c': element type " + std::string(name) +
                              " is not supported"))
        << text;
    EXPECT_EQ(has(text, "; export the model before it is quantised"), advice) << text;
  }
}

/// Neither tensors and inputs that no node reads, nor nodes whose results nobody does.
TEST(ElementTypes, whatNothingReadsMayBeAnything) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[3] x, string[3] s) => (float[3] y) { y = Relu(x)  t = StringNormalizer(u) })");
  proto.mutable_graph()->add_input()->set_name("untyped");
  *proto.mutable_graph()->add_initializer() = tensorOf(Type::STRING, "u");
  *proto.mutable_graph()->add_initializer() = tensorOf(17, "v");
  const Model model = read(proto);
  EXPECT_EQ(model.inputs.size(), 1u);
  EXPECT_EQ(model.nodes.size(), 1u);
  EXPECT_TRUE(model.initializers.empty());
  onnx::ModelProto asked = proto;
  asked.mutable_graph()->mutable_node(0)->set_input(0, "s");
  EXPECT_TRUE(has(refusal(asked), "test.onnx: input 's': element type STRING is not supported"));
  proto.mutable_graph()->mutable_output(0)->set_name("u");
  EXPECT_TRUE(has(refusal(proto), "initializer 'u': element type STRING is not supported"));
}
