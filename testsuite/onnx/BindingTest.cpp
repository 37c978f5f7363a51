#include "compiler/onnx/Binding.h"
#include "testsuite/onnx/ModelText.h"

using namespace pdc;
using namespace pdc::testing;

/// Two inputs whose first dimensions have these names, none where they are empty.
static Model twoInputs(const std::string &first, const std::string &second,
                       const std::string &last = "4") {
  onnx::ModelProto proto = protoOf(header + ("net (float[a, 4] x, float[b, " + last +
                                             "] z) => (float[c, 4] y) { y = Add(x, z) }"));
  for (auto [input, name] : {std::pair(0, first), std::pair(1, second)}) {
    auto &dimension = *proto.mutable_graph()
                           ->mutable_input(input)
                           ->mutable_type()
                           ->mutable_tensor_type()
                           ->mutable_shape()
                           ->mutable_dim(0);
    dimension.clear_dim_param();
    if (!name.empty())
      dimension.set_dim_param(name);
  }
  return read(proto);
}

static std::string typeOfSecond(const Model &model) {
  try {
    return Binding(model, 6, {}).typeOf(model.inputs[1]).toString();
  } catch (const Error &error) {
    return error.what();
  }
}

/// Each input's samples by a name that an exporter made up, or by none.
TEST(Binding, samplesOfManyNames) {
  EXPECT_EQ(typeOfSecond(twoInputs("s17", "s203")), "f32[6,4]");
  EXPECT_EQ(typeOfSecond(twoInputs("unk__6", "unk__7")), "f32[6,4]") << "tf2onnx's";
  EXPECT_EQ(typeOfSecond(twoInputs("x_dynamic_axes_1", "z_dynamic_axes_1")), "f32[6,4]")
      << "PyTorch's, of dynamic_axes without names";
  EXPECT_EQ(typeOfSecond(twoInputs("", "")), "f32[6,4]");
  EXPECT_EQ(typeOfSecond(twoInputs("batch", "")), "f32[6,4]");
  const Binding another = *Binding(twoInputs("", ""), 6, {}).withAnotherSample();
  EXPECT_EQ(another.typeOf(twoInputs("", "").inputs[1]).toString(), "f32[7,4]");
}

/// A name that stands elsewhere too counts something else, and so may one that a user gave.
TEST(Binding, namesThatMayCountSomethingElse) {
  for (const char *name : {"unk__7", "s203"})
    EXPECT_TRUE(typeOfSecond(twoInputs("batch", name, name))
                    .starts_with("'z': dimension '" + std::string(name) + "' has no size"));
  for (const char *name : {"rows", "s", "unk__x", "y_dynamic_axes_1", "x_dim0"})
    EXPECT_EQ(typeOfSecond(twoInputs("batch", name)),
              "'z': dimension '" + std::string(name) + "' has no size; give one, as in --bind " +
                  name +
                  "=128, or, if it counts samples, export the model with one name for the first "
                  "dimension of all inputs");
}

/// Which inputs of these shapes have a row for each of two samples, where the file leaves their
/// number open.
static std::string ofSamples(const std::string &shapes) {
  Model model =
      read(protoOf(header + ("net (" + shapes + ") => (float[c, 4] y) { y = Add(a, b) }")));
  const Binding binding(model, fixedMicrobatchSize(model) ? 0 : 2, {});
  std::string names;
  for (const ModelValue &input : model.inputs)
    names += binding.isOfSamples(input, binding.typeOf(input)) ? input.name : "";
  return names;
}

TEST(Binding, sizeOfMicrobatches) {
  auto size = [](const std::string &shapes, const std::map<std::string, int64_t> &bound) {
    return fixedMicrobatchSize(
        read(protoOf(header + ("net (" + shapes + ") => (float[c, 4] y) { y = Add(a, b) }"))),
        bound);
  };
  EXPECT_EQ(size("float[1, 4] a, float[batch, 4] b", {}), std::nullopt);
  EXPECT_EQ(size("float[1, 4] a, float[batch, 4] b", {{"batch", 8}}), 8);
  EXPECT_EQ(size("float[batch, 4] a, float[1, 4] b", {{"batch", 8}}), 8);
  EXPECT_EQ(size("float[3, 4] a, float[rows, 4] b", {{"rows", 8}}), 3);
}

TEST(Binding, inputsWithoutSamples) {
  EXPECT_EQ(ofSamples("float[batch, 4] a, float[1, 4] b, float[3, 4] c, float d"), "a");
  EXPECT_EQ(ofSamples("float[batch, 4] a, float[2, 4] b"), "a") << "as many rows as samples";
  EXPECT_EQ(ofSamples("float[1, 4] a, float[batch, 4] b"), "b");
  EXPECT_EQ(ofSamples("float[1, 4] a, float[unk__3, 4] b"), "ab") << "a name that a tool made up";
  EXPECT_EQ(ofSamples("float a, float[batch, 4] b"), "b");
  EXPECT_EQ(ofSamples("float[1, 4] a, float[1, 2] b, float[2, 4] c"), "ab") << "one sample";
  EXPECT_EQ(ofSamples("float[5, 4] a, float[3, 4] b"), "a");
}
