#include "testsuite/onnx/ModelText.h"

#include <map>

using namespace pdc;
using namespace pdc::testing;

/// A Scan with a state and a row of each step; `attributes` say how.
static onnx::ModelProto scanOf(const std::map<std::string, std::vector<int64_t>> &attributes,
                               const std::string &rowType = "float[2] row", int64_t opset = 17) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[3, 2] x, float[2] start) => (float[N] y) {
      last, rows = Loop<body = b (float[2] state, float[2] element) => (float[2] next, )" +
                                   rowType + R"() {
        next = Add(state, element)
        row = Mul(next, element)
      }>(start, x)
      sum = ReduceSum<keepdims = 0>(rows)
      y = Add(last, sum)
    })");
  proto.mutable_opset_import(0)->set_version(opset);
  onnx::NodeProto &scan = *proto.mutable_graph()->mutable_node(0);
  scan.set_op_type("Scan");
  onnx::AttributeProto &count = *scan.add_attribute();
  count.set_name("num_scan_inputs");
  count.set_type(onnx::AttributeProto::INT);
  count.set_i(1);
  for (const auto &[name, values] : attributes) {
    onnx::AttributeProto &attribute = *scan.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INTS);
    attribute.mutable_ints()->Assign(values.begin(), values.end());
  }
  return proto;
}

static std::vector<const ModelNode *> nodesOf(const Model &model, const std::string &op) {
  std::vector<const ModelNode *> found;
  for (const ModelNode &node : model.nodes)
    if (node.op == op)
      found.push_back(&node);
  return found;
}

static std::vector<double> elementsRead(const Model &model) {
  std::vector<double> elements;
  for (const ModelNode *node : nodesOf(model, "Gather"))
    elements.push_back(readTensor(model.initializers.at(node->inputs[1])).data.at(0));
  return elements;
}

/// Three steps, each of which adds the next element to the state.
TEST(Scans, areWrittenOut) {
  const Model model = read(scanOf({}));
  EXPECT_EQ(elementsRead(model), (std::vector<double>{0, 1, 2}));
  const auto sums = nodesOf(model, "Add");
  ASSERT_EQ(sums.size(), 4u);
  EXPECT_EQ(sums[0]->inputs[0], "start");
  EXPECT_EQ(sums[2]->inputs[0], sums[1]->outputs[0]);
  EXPECT_EQ(nodesOf(model, "Concat").at(0)->inputs.size(), 3u);
  EXPECT_TRUE(nodesOf(model, "Slice").empty());
  EXPECT_TRUE(nodesOf(model, "Transpose").empty());
}

/// Along the other axis of both, where there are two elements, of rows that are stacked as columns.
TEST(Scans, alongOtherAxes) {
  onnx::ModelProto proto = scanOf({{"scan_input_axes", {-1}}, {"scan_output_axes", {1}}});
  const Model model = read(proto);
  EXPECT_EQ(elementsRead(model), (std::vector<double>{0, 1}));
  EXPECT_EQ(nodesOf(model, "Transpose").at(0)->attributes.integers("perm"),
            (std::vector<int64_t>{1, 0}));
  const Model deep = read(scanOf({{"scan_output_axes", {-2}}}, "float[2, 4, 5] row"));
  EXPECT_EQ(nodesOf(deep, "Transpose").at(0)->attributes.integers("perm"),
            (std::vector<int64_t>{1, 2, 0, 3}));
}

/// From the last element on, and what the last step makes first.
TEST(Scans, backwards) {
  const Model model =
      read(scanOf({{"scan_input_directions", {1}}, {"scan_output_directions", {1}}}));
  EXPECT_EQ(nodesOf(model, "Slice").size(), 1u);
  // The places count from the end: 3 - 1 - step.
  EXPECT_EQ(nodesOf(model, "Sub").size(), 4u);
}

TEST(Scans, refusals) {
  auto says = [](const onnx::ModelProto &proto, const std::string &what) {
    const std::string found = refusal(proto);
    EXPECT_NE(found.find(what), std::string::npos) << found;
  };
  says(scanOf({{"scan_output_axes", {2}}}), "'rows' of rank 2 has no axis 2");
  says(scanOf({{"scan_output_axes", {1}}}, "row"), "says no shape; export the model with shapes");
  onnx::ModelProto uneven = scanOf({});
  uneven.mutable_graph()->mutable_node(0)->mutable_attribute(1)->set_i(3);
  says(uneven, "which do not fit");
  says(scanOf({}, "float[2] row", 8), "(Scan, opset 8): this operator is not supported");
}
