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
  struct Since {
    const char *op, *attribute;
    int64_t first, last;
  };
  for (const Since &since : {Since{"ReduceSum", "axes", 7, 12},
                             {"ReduceSum", "noop_with_empty_axes", 13, 23},
                             {"ReduceMax", "axes", 7, 17},
                             {"ReduceMax", "noop_with_empty_axes", 18, 23},
                             {"Resize", "antialias", 18, 23},
                             {"Split", "num_outputs", 18, 23},
                             {"AveragePool", "dilations", 19, 23},
                             {"Dropout", "ratio", 7, 11},
                             {"Reshape", "allowzero", 14, 23},
                             {"Conv", "pads", 7, 23}}) {
    if (since.first > 7) {
      EXPECT_NE(refusalOf(since.op, since.attribute, std::min<int64_t>(since.first - 1, 17)), "")
          << since.op;
    }
    EXPECT_EQ(refusalOf(since.op, since.attribute, since.first), "") << since.op;
    EXPECT_EQ(refusalOf(since.op, since.attribute, since.last), "") << since.op;
  }
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
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] y) { y = LeakyRelu<alpha = 0.5>(x) })");
  proto.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_f(
      std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(refusal(proto), "test.onnx: node 'LeakyRelu' (LeakyRelu, opset 17): attribute 'alpha' "
                            "is not a number");
}

} // namespace
} // namespace pdc::testing
