#include "compiler/onnx/Parameters.h"
#include "testsuite/onnx/ModelText.h"

#include <google/protobuf/unknown_field_set.h>

using namespace pdc;
using namespace pdc::testing;

using NameSet = std::set<std::string>;

/// metadata_props, a field that older classes of ONNX do not know.
static void addMetadata(google::protobuf::Message &message, int field, const std::string &key,
                        const std::string &value) {
  onnx::StringStringEntryProto entry;
  entry.set_key(key);
  entry.set_value(value);
  message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(
      field, entry.SerializeAsString());
}

static void declareKind(onnx::ModelProto &model, const std::string &name, const std::string &kind) {
  onnx::ValueInfoProto &value = *model.mutable_graph()->add_value_info();
  value.set_name(name);
  addMetadata(value, 4, "pkg.torch.export.graph_signature.InputSpec.kind", kind);
}

static NameSet trainedOf(const Model &model) {
  return chooseParameters(model, chooseLoss(model, ""), {});
}

/// Named by no words that tell a weight from a table: w and s are weights, t is a table.
static onnx::ModelProto scaled() {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, 4] y) {
      a = Where(c, s, x)
      b = Mul(a, t)
      d = Mul(b, f)
      y = MatMul(d, w) })");
  for (const char *name : {"s", "t", "f"})
    addInitializer(model, name, {3}, {1, 2, 3});
  addInitializer(model, "w", {3, 4}, std::vector<float>(12, 1));
  onnx::TensorProto &condition = *model.mutable_graph()->add_initializer();
  condition.set_name("c");
  condition.set_data_type(onnx::TensorProto::BOOL);
  condition.add_dims(3);
  condition.set_raw_data(std::string("\1\0\1", 3));
  return model;
}

TEST(Parameters, exportersMetadata) {
  EXPECT_EQ(trainedOf(read(scaled())), (NameSet{"f", "t", "w"}));
  onnx::ModelProto model = scaled();
  declareKind(model, "s", "PARAMETER");
  declareKind(model, "t", "BUFFER");
  EXPECT_EQ(trainedOf(read(model)), (NameSet{"s", "w"}))
      << "f and w were folded, w a factor of a product";
  declareKind(model, "c", "PARAMETER");
  EXPECT_EQ(trainedOf(read(model)), (NameSet{"s", "w"})) << "integers are not trained";
}

TEST(Parameters, lostParameters) {
  onnx::ModelProto model = scaled();
  for (const char *name : {"s", "t", "f", "w"})
    declareKind(model, name, "PARAMETER");
  addMetadata(*model.mutable_graph(), 16, "pkg.torch.export.ExportedProgram.graph_signature",
              "# inputs\np_s: PARAMETER target='s'\np_b: PARAMETER target='fc.bias'\n"
              "b_m: BUFFER target='mean' persistent=True\nx: USER_INPUT\n");
  EXPECT_TRUE(read(model).metadata.lostParameters.empty())
      << "one that is not read, or has two names";
  onnx::ModelProto folded = model;
  folded.mutable_graph()->mutable_value_info()->RemoveLast();
  EXPECT_EQ(read(folded).metadata.lostParameters, std::vector<std::string>{"fc.bias"});
  addMetadata(*model.mutable_graph()->mutable_node(0), 9, "pkg.onnxscript.rewriter.rule_name",
              "RemoveBias");
  EXPECT_EQ(read(model).metadata.lostParameters, std::vector<std::string>{"fc.bias"});
}

/// Tools that simplify graphs make initializers of Constant nodes.
TEST(Parameters, constantsThatAreInitializers) {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, 3] y) {
      a = Add(x, epsilon)
      b = Mul(a, scale)
      y = Add(b, bias) })");
  addInitializer(model, "epsilon", {}, {1e-5F});
  addInitializer(model, "scale", {1}, {0.5F});
  addInitializer(model, "bias", {3}, {1, 2, 3});
  EXPECT_EQ(trainedOf(read(model)), (NameSet{"bias", "scale"}));
  model.mutable_graph()->mutable_initializer(1)->set_name("/norm/Constant_1_output_0");
  model.mutable_graph()->mutable_node(1)->set_input(1, "/norm/Constant_1_output_0");
  EXPECT_EQ(trainedOf(read(model)), NameSet{"bias"});
}
