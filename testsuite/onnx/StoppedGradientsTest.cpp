#include "testsuite/onnx/ModelText.h"

using namespace pdc;
using namespace pdc::testing;

/// Operators by the values that they make.
static std::map<std::string, std::string> makersOf(const Model &model) {
  std::map<std::string, std::string> makers;
  for (const ModelNode &node : model.nodes)
    for (const std::string &output : node.outputs)
      makers[output] = node.op;
  return makers;
}

static onnx::ModelProto quantised() {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, 3] y) {
      z = MatMul(x, w)
      d = Identity(z)
      c = Identity(w)
      n = Mul(s, z)
      a = Add(d, n)
      y = MatMul(a, c) })");
  addInitializer(model, "w", {3, 3}, std::vector<float>(9, 1));
  addInitializer(model, "s", {3}, {1, 2, 3});
  return model;
}

static void sayNode(onnx::ModelProto &model, int node, const std::string &call) {
  addMetadata(*model.mutable_graph()->mutable_node(node), 9, "pkg.torch.onnx.fx_node",
              "%v : [num_users=1] = call_function[target=torch.ops.aten." + call +
                  "](args = (%z,), kwargs = {})");
}

TEST(StoppedGradients, detach) {
  onnx::ModelProto model = quantised();
  EXPECT_EQ(makersOf(read(model)).at("d"), "Identity");
  sayNode(model, 1, "clone.default");
  sayNode(model, 2, "detach.default");
  std::map<std::string, std::string> makers = makersOf(read(model));
  EXPECT_EQ(makers.at("d"), "Identity");
  EXPECT_EQ(makers.at("c"), "pdc.StopGradient")
      << "of a weight too, which an Identity is another name of";
}

/// A buffer's next value is not differentiated, whoever reads it.
TEST(StoppedGradients, nextBuffers) {
  onnx::ModelProto model = quantised();
  addSignature(model,
               "p_w: PARAMETER target='w'\nb_s: BUFFER target='s' persistent=True\n\n# outputs\n"
               "n: BUFFER_MUTATION target='s'\ny: USER_OUTPUT\n");
  Model imported = read(model);
  EXPECT_EQ(makersOf(imported).at("n"), "pdc.StopGradient");
  EXPECT_EQ(makersOf(imported).at("n/flowing"), "Mul");
}

/// Nor is one between, of a layer that is called twice: the program tells where it is written.
TEST(StoppedGradients, buffersOfSeveralCalls) {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, 3] y) {
      m = Mul(s, w)
      n = Mul(m, w)
      a = Mul(x, m)
      y = Mul(a, n) })");
  for (const char *name : {"w", "s"})
    addInitializer(model, name, {3}, {1, 2, 3});
  addSignature(model,
               "p_w: PARAMETER target='w'\nb_s: BUFFER target='s' persistent=True\n\n# outputs\n"
               "n: BUFFER_MUTATION target='s'\ny: USER_OUTPUT\n");
  auto makerOf = [&](const std::string &trace) {
    onnx::ModelProto said = model;
    onnx::NodeProto &node = *said.mutable_graph()->mutable_node(0);
    addMetadata(node, 9, "pkg.torch.onnx.fx_node", "%m : [num_users=2] = call_function[...]");
    addMetadata(node, 9, "pkg.torch.onnx.stack_trace", "File \"forward\"\n    " + trace);
    return makersOf(read(said)).at("m");
  };
  EXPECT_EQ(makerOf("mul = torch.ops.aten.mul.out(b_s, w, out = b_s);  w = None"),
            "pdc.StopGradient");
  EXPECT_EQ(makerOf("mul_ = torch.ops.aten.mul_.Tensor(b_s, w);  w = None"), "pdc.StopGradient");
  EXPECT_EQ(makerOf("mul = torch.ops.aten.mul.Tensor(b_s, w);  w = None"), "Mul");
  EXPECT_EQ(makerOf("mul = torch.ops.aten.mul.out(b_s, w, out = b_s_1)"), "Mul");
}

/// The row for padding is read, and not trained.
TEST(StoppedGradients, paddingRow) {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (int32[2, 5] ids) => (float[2, 5, 3] y) {
      r = Gather(w, ids)
      y = Relu(r) })");
  addInitializer(model, "w", {9, 3}, std::vector<float>(27, 1));
  auto say = [&](const std::string &arguments) {
    onnx::ModelProto said = model;
    addMetadata(
        *said.mutable_graph()->mutable_node(0), 9, "pkg.torch.onnx.fx_node",
        "%r : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = (" +
            arguments + "), kwargs = {})");
    return makersOf(read(said)).at("r");
  };
  EXPECT_EQ(say("%p_w, %ids, 0"), "Where");
  EXPECT_EQ(say("%p_w, %ids, -1"), "Gather");
  EXPECT_EQ(say("%p_w, %ids"), "Gather");
}

/// Of equals a Max has half the gradient, of its bound a clamp has none.
TEST(StoppedGradients, atBoundsOfClamps) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2] x, float b) => (float[2] y) { a = Max(x, b)  y = Min(a, b) })");
  const char *hierarchies[] = {"['Net', 'aten.clamp.Tensor']", "['Net', 'aten.minimum.default']"};
  for (int i = 0; i < 2; ++i)
    addMetadata(*proto.mutable_graph()->mutable_node(i), 9, "pkg.torch.onnx.class_hierarchy",
                hierarchies[i]);
  const Model model = read(proto);
  EXPECT_EQ(model.nodes[0].attributes.integer("clamps", 0), 1);
  EXPECT_FALSE(model.nodes[1].attributes.has("clamps"));
}

/// PyTorch's squeeze of a dimension that is not 1 does nothing, which ONNX refuses.
TEST(StoppedGradients, squeezesOfOtherSizes) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2, 1, 3] x) => (float[2, 3] y) <int64[2] axes = {0, 1}> { y = Squeeze(x, axes) })");
  EXPECT_FALSE(read(proto).nodes[0].attributes.has("where_one"));
  addMetadata(*proto.mutable_graph()->mutable_node(0), 9, "pkg.torch.onnx.class_hierarchy",
              "['Net', 'aten.squeeze.dims']");
  EXPECT_EQ(read(proto).nodes[0].attributes.integer("where_one", 0), 1);
}
