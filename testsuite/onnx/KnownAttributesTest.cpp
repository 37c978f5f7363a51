#include "compiler/onnx/KnownAttributes.h"
#include "testsuite/onnx/ModelText.h"

#include <limits>

namespace pdc::testing {
namespace {

/// What a node of that operator and attribute is refused with in that opset.
std::string refusalOf(const std::string &op, const std::string &attribute, int64_t opset) {
  onnx::NodeProto node;
  node.set_name("n");
  node.set_op_type(op);
  node.add_attribute()->set_name(attribute);
  try {
    checkAttributesKnown(node, opset);
    return "";
  } catch (const Error &error) {
    return error.what();
  }
}

TEST(KnownAttributes, RefusesMisspelledOnes) {
  EXPECT_EQ(refusal(protoOf(std::string(header) + R"(
    net (float[1,3,4,4] x, float[3,3,3,3] w) => (float[1,3,2,2] y) { y = Conv<pad = [1,1,1,1]>(x, w) })")),
            "test.onnx: the node that makes 'y' (Conv): attribute 'pad' is unknown in opset 17, "
            "expected 'auto_pad', 'dilations', 'group', 'kernel_shape', 'pads', 'strides'");
  EXPECT_EQ(refusalOf("Relu", "alpha", 14),
            "node 'n' (Relu): attribute 'alpha' is unknown in opset 14, expected none");
}

/// As the files of ONNX's releases list them (onnx 1.23).
TEST(KnownAttributes, FollowTheOpset) {
  constexpr int64_t first = 7, last = 28;
  /// Of which nothing is known before.
  auto since = [](const std::string &op) -> int64_t {
    return op == "GroupNormalization" ? 18 : op == "DFT" ? 17 : op == "Resize" ? 10 : first;
  };
  struct Span {
    const char *op, *attribute;
    int64_t from, to;
  };
  for (const Span &span : {Span{"ReduceSum", "axes", first, 12},
                           {"ReduceSum", "noop_with_empty_axes", 13, last},
                           {"ReduceMax", "axes", first, 17},
                           {"ReduceMean", "axes", first, 17},
                           {"ReduceMean", "noop_with_empty_axes", 18, last},
                           {"DFT", "axis", 17, 19},
                           {"Resize", "antialias", 18, last},
                           {"Split", "num_outputs", 18, last},
                           {"AveragePool", "dilations", 19, last},
                           {"GroupNormalization", "stash_type", 21, last},
                           {"Cast", "saturate", 19, last},
                           {"Dropout", "ratio", first, 11},
                           {"Reshape", "allowzero", 14, last},
                           {"Conv", "pads", first, last}})
    for (int64_t opset = std::max(span.from - 1, since(span.op)); opset <= last; ++opset)
      EXPECT_EQ(refusalOf(span.op, span.attribute, opset).empty(),
                opset >= span.from && opset <= span.to)
          << span.op << ", " << span.attribute << ", opset " << opset;
}

/// Which is refused as such.
TEST(KnownAttributes, SayNothingOfOpsetsThatAreNotSupported) {
  EXPECT_EQ(refusalOf("Cast", "round_mode", 24), "");
}

TEST(KnownAttributes, OfOptimizers) {
  auto refused = [](const char *attribute) {
    onnx::NodeProto node;
    node.set_op_type("Adam");
    node.set_domain("ai.onnx.preview.training");
    node.add_attribute()->set_name(attribute);
    try {
      checkAttributesKnown(node, 1);
      return false;
    } catch (const Error &) {
      return true;
    }
  };
  EXPECT_FALSE(refused("alpha"));
  EXPECT_TRUE(refused("alhpa"));
}

/// A function's own, whose default is in field 11 of FunctionProto: ONNX Runtime gives -0.5 for -1.
TEST(KnownAttributes, OfFunctions) {
  auto model = [](const char *call) {
    onnx::ModelProto proto =
        protoOf(std::string("<ir_version: 9, opset_import: [\"\" : 17, \"local\" : 1]>\n"
                            "net (float[2] x) => (float[2] y) { y = local.F") +
                call + "(x) }");
    onnx::FunctionProto &function = *proto.add_functions();
    function.set_domain("local");
    function.set_name("F");
    function.add_input("in");
    function.add_output("out");
    function.add_opset_import()->set_version(17);
    onnx::NodeProto &node = *function.add_node();
    node.set_op_type("LeakyRelu");
    node.add_input("in");
    node.add_output("out");
    onnx::AttributeProto &reference = *node.add_attribute();
    reference.set_name("alpha");
    reference.set_ref_attr_name("slope");
    reference.set_type(onnx::AttributeProto::FLOAT);
    onnx::AttributeProto standard;
    standard.set_name("slope");
    standard.set_type(onnx::AttributeProto::FLOAT);
    standard.set_f(0.5);
    function.GetReflection()->MutableUnknownFields(&function)->AddLengthDelimited(
        11, standard.SerializeAsString());
    return proto;
  };
  EXPECT_EQ(read(model("")).nodes.at(0).attributes.number("alpha", 0), 0.5);
  EXPECT_EQ(read(model("<slope = 0.25>")).nodes.at(0).attributes.number("alpha", 0), 0.25);
  EXPECT_EQ(refusal(model("<slop = 0.25>")),
            "test.onnx: the node that makes 'y' (local::F): attribute 'slop' is none of the "
            "function's that it calls");
  onnx::ModelProto outside = model("");
  *outside.mutable_graph()->mutable_node(0) = outside.functions(0).node(0);
  outside.mutable_graph()->mutable_node(0)->set_input(0, "x");
  outside.mutable_graph()->mutable_node(0)->set_output(0, "y");
  EXPECT_EQ(refusal(outside),
            "test.onnx: the node that makes 'y' (LeakyRelu): attribute 'alpha' is attribute "
            "'slope' of a function, and the node is in none");
}

TEST(KnownAttributes, OfOperatorsBehindTheLibrary) {
  EXPECT_EQ(refusalOf("Attention", "softcap", 23), "");
  EXPECT_NE(refusalOf("Attention", "is_casual", 23), "");
  EXPECT_NE(refusalOf("Gelu", "approximation", 20), "");
  EXPECT_EQ(refusalOf("DeformConv", "whatever", 19), ""); // nothing is known of it
}

TEST(KnownAttributes, OnnxRuntimeMarksNodes) {
  EXPECT_EQ(refusalOf("MatMul", "__backwardpass", 17), "");
}

TEST(KnownAttributes, NumbersAreNumbers) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  auto refused = [](const std::string &node, bool isList) {
    onnx::ModelProto proto =
        protoOf(std::string(header) + "net (float[2] x) => (float[2] y) { y = " + node + "(x) }");
    onnx::AttributeProto &attribute = *proto.mutable_graph()->mutable_node(0)->mutable_attribute(0);
    isList ? attribute.set_floats(0, nan) : attribute.set_f(nan);
    return refusal(proto);
  };
  EXPECT_EQ(refused("LeakyRelu<alpha = 0.5>", false),
            "test.onnx: node 'LeakyRelu' (LeakyRelu, opset 17): attribute 'alpha' is NaN, expected "
            "a number");
  EXPECT_TRUE(refused("LSTM<activation_alpha = [0.5]>", true).ends_with("expected a number"));
  // A value of elements, and a seed that says nothing.
  for (const char *node : {"Resize<extrapolation_value = 1.0>", "RandomNormalLike<seed = 1.0>"})
    EXPECT_EQ(refused(node, false).find("is NaN"), std::string::npos) << node;
}

} // namespace
} // namespace pdc::testing
