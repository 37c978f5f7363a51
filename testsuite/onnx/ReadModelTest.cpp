#include "compiler/onnx/Normalisations.h"
#include "testsuite/onnx/ModelText.h"

#include <cstring>
#include <random>

using namespace pdc;
using namespace pdc::testing;
using ::testing::TempDir;

TEST(ReadModel, inputsNodesAndOutputs) {
  Model model = read(protoOf(std::string(header) + R"(
    net (float[batch, 3] x) => (float[batch, 3] y) { y = Relu(x) })"));
  ASSERT_EQ(model.inputs.size(), 1u);
  EXPECT_EQ(model.inputs[0].shape[0].symbol, "batch");
  EXPECT_EQ(model.inputs[0].shape[1].value, 3);
  ASSERT_EQ(model.nodes.size(), 1u);
  EXPECT_EQ(model.nodes[0].op, "Relu");
  EXPECT_FALSE(model.nodes[0].name.empty());
  EXPECT_EQ(toString(model), "model \"test.onnx\"\n"
                             "input \"x\" : f32[batch,3]\n"
                             "\"y\" = Relu \"Relu\" (\"x\")\n"
                             "output \"y\" : f32[batch,3]\n");
}

TEST(ReadModel, bindsADimensionEverywhere) {
  Model model = read(protoOf(std::string(header) + R"(
    net (float[batch, 3] x) => (float[batch, 3] y) { y = Relu(x) })"));
  bindDimension(model, "batch", 16);
  EXPECT_EQ(model.inputs[0].shape[0].value, 16);
  EXPECT_EQ(model.outputs[0].shape[0].value, 16);
  try {
    bindDimension(model, "sequence", 4);
    FAIL();
  } catch (const Error &error) {
    EXPECT_STREQ(error.what(), "test.onnx: no dimension 'sequence'; all are numbers");
  }
}

TEST(ReadModel, initializersListedAsInputsAreNoInputs) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) })");
  addInitializer(proto, "w", {2}, {1, 2});
  Model model = read(proto);
  ASSERT_EQ(model.inputs.size(), 1u);
  const Initializer &w = model.initializers.at("w");
  EXPECT_EQ(w.type.toString(), "f32[2]");
  EXPECT_EQ(readTensor(w).data, (std::vector<double>{1, 2}));
}

TEST(ReadModel, sortsTopologically) {
  Model model = read(protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] c) { c = Sigmoid(b)  b = Tanh(a)  a = Relu(x) })"));
  EXPECT_EQ(model.nodes[0].op, "Relu");
  EXPECT_EQ(model.nodes[1].op, "Tanh");
  EXPECT_EQ(model.nodes[2].op, "Sigmoid");
}

TEST(ReadModel, refusesCyclesAndUnknownValues) {
  EXPECT_TRUE(has(refusal(protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] b) { a = Add(x, b)  b = Relu(a) })")),
                  "depends on its own result"));
  EXPECT_TRUE(has(refusal(protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] b) { b = Relu(lost) })")),
                  "input 'lost' is made by no node"));
  EXPECT_TRUE(has(refusal(protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] b) { b = Relu(x)  b = Tanh(x) })")),
                  "value 'b' has another producer"));
  EXPECT_TRUE(has(refusal(protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] z) { y = Relu(x) })")),
                  "output 'z' is made by no node"));
}

TEST(ReadModel, nodeNamesBecomeUnique) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] c) { a = Relu(x)  b = Relu(a)  c = Relu(b) })");
  proto.mutable_graph()->mutable_node(1)->set_name("same");
  proto.mutable_graph()->mutable_node(2)->set_name("same");
  Model model = read(proto);
  EXPECT_EQ(model.nodes[0].name, "Relu");
  EXPECT_EQ(model.nodes[1].name, "same");
  EXPECT_EQ(model.nodes[2].name, "same_2");
}

/// Names that weights files, which are JSON, could not hold as they are.
TEST(ReadModel, refusesNamesThatFilesCannotHold) {
  const std::string rest = "; rename it where the model is exported";
  for (auto [name, reason] :
       {std::pair(std::string("w\0", 2), "w\\x00': its name holds a zero byte, expected text"),
        {"\xff\xfew", "\\xff\\xfew': its name is not UTF-8, expected text"},
        {"\xc3(", "\\xc3(': its name is not UTF-8, expected text"},
        {"\xed\xa0\x80", "\\xed\\xa0\\x80': its name is not UTF-8, expected text"},
        {"__metadata__", "__metadata__': this name is reserved in weights files"}}) {
    onnx::ModelProto proto = protoOf(std::string(header) + R"(
      net (float[2] x) => (float[2] y) { a = Add(x, w)  y = Relu(a) })");
    addInitializer(proto, "w", {2}, {1, 2});
    onnx::ModelProto value = proto, node = proto;
    proto.mutable_graph()->mutable_initializer(0)->set_name(name);
    proto.mutable_graph()->mutable_node(0)->set_input(1, name);
    EXPECT_EQ(refusal(proto), "test.onnx: initializer '" + (reason + rest));
    value.mutable_graph()->mutable_node(0)->set_output(0, name);
    value.mutable_graph()->mutable_node(1)->set_input(0, name);
    EXPECT_EQ(refusal(value), "test.onnx: value '" + (reason + rest));
    node.mutable_graph()->mutable_node(0)->set_name(name);
    EXPECT_EQ(refusal(node), "test.onnx: node '" + (reason + rest));
  }
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] y) { y = Add(x, w) })");
  addInitializer(proto, "\u6743\u91cd\U0001f525", {2}, {1, 2});
  proto.mutable_graph()->mutable_node(0)->set_input(1, "\u6743\u91cd\U0001f525");
  EXPECT_EQ(refusal(proto), "");
}

TEST(ReadModel, constantsBecomeInitializers) {
  Model model = read(protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] y) {
      c = Constant<value = float[2] {3.0, 4.0}>()
      y = Mul(x, c)
    })"));
  EXPECT_EQ(model.nodes.size(), 1u);
  EXPECT_EQ(readTensor(model.initializers.at("c")).data, (std::vector<double>{3, 4}));
}

TEST(ReadModel, constantOfShapeIsAFill) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, 3] y) {
      w = ConstantOfShape<value = float[1] {0.02}>(shape)
      y = Add(x, w)
    })");
  addShape(proto, "shape", {2, 3});
  Model model = read(proto);
  EXPECT_EQ(model.nodes.size(), 1u);
  EXPECT_FALSE(model.initializers.contains("shape"));
  const Initializer &w = model.initializers.at("w");
  EXPECT_EQ(w.type.toString(), "f32[2,3]");
  EXPECT_FLOAT_EQ(w.fill.value(), 0.02f);
}

TEST(ReadModel, identityOfAnInitializerIsThatInitializer) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] y) { v = Identity(w)  a = Add(x, v)  y = Add(a, w) })");
  addInitializer(proto, "w", {2}, {1, 2});
  Model model = read(proto);
  ASSERT_EQ(model.nodes.size(), 2u);
  EXPECT_EQ(model.nodes[0].inputs[1], "w");
}

/// A fresh network's statistics equal its scale and its bias, and PyTorch's exporter writes one
/// tensor for both.
TEST(ReadModel, statisticsAreTensorsOfTheirOwn) {
  onnx::ModelProto proto = protoOf(R"(<ir_version: 8, opset_import: ["" : 15]>
    net (float[4, 2] x) => (float[4, 2] z) {
      mean = Identity(bias)
      variance = Identity(scale)
      scale2 = Identity(scale)
      y = BatchNormalization(x, scale, bias, mean, variance)
      z = BatchNormalization(y, scale2, bias, mean, variance)
    })");
  addInitializer(proto, "scale", {2}, {1, 1});
  addInitializer(proto, "bias", {2}, {0, 0});
  Model model = read(proto);
  ASSERT_EQ(model.nodes.size(), 2u);
  EXPECT_EQ(model.nodes[0].inputs,
            (std::vector<std::string>{"x", "scale", "bias", "mean", "variance"}));
  EXPECT_EQ(model.nodes[1].inputs,
            (std::vector<std::string>{"y", "scale", "bias", "mean", "variance"}));
  EXPECT_EQ(readTensor(model.initializers.at("variance")).data, (std::vector<double>{1, 1}));
  EXPECT_EQ(runningStatistics(model), (std::set<std::string>{"mean", "variance"}));
}

TEST(ReadModel, refusesOutputsThatTheNewestFormDoesNotHave) {
  const char *model = R"(<ir_version: 7, opset_import: ["" : 9]>
    net (float[2,3] x, float[3] s) => (float[2,3] y, float[3] z) {
      y, a, b, c, d = BatchNormalization<epsilon = 0.1>(x, s, s, s, s)
      z = Identity(d) })";
  EXPECT_EQ(refusal(protoOf(model)),
            "test.onnx: node 'BatchNormalization' (BatchNormalization, opset 9): output 'd', which "
            "node 'Identity' (Identity, opset 9) reads, is not supported");
  onnx::ModelProto output = protoOf(model);
  output.mutable_graph()->mutable_node()->RemoveLast();
  output.mutable_graph()->mutable_output(1)->set_name("d");
  EXPECT_EQ(refusal(output), "test.onnx: node 'BatchNormalization' (BatchNormalization, opset 9): "
                             "output 'd', which the model reads, is not supported");
}

TEST(ReadModel, unusedNodesAndDomainsAreIgnored) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] y) { y = Relu(x)  z = Tanh(x) })");
  auto *unused = proto.add_opset_import();
  unused->set_domain("com.example.nowhere");
  unused->set_version(3);
  EXPECT_EQ(read(proto).nodes.size(), 1u);
}

TEST(ReadModel, refusesWhatItDoesNotKnow) {
  EXPECT_TRUE(has(refusal(protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] y) { y = Frobnicate(x) })")),
                  "test.onnx: node 'Frobnicate' (Frobnicate, opset 17): this operator is not "
                  "supported; compiler/operators/README.md lists those that are"));
  EXPECT_TRUE(has(refusal(protoOf(R"(<ir_version: 8, opset_import: ["" : 17, "other" : 1]>
    net (float[2] x) => (float[2] y) { y = other.Relu(x) })")),
                  "operators of domain 'other' are not supported"));
  EXPECT_TRUE(has(refusal(protoOf(R"(<ir_version: 8, opset_import: ["" : 99]>
    net (float[2] x) => (float[2] y) { y = Relu(x) })")),
                  "(Relu, opset 99): supported from opset "));
  EXPECT_TRUE(has(refusal(protoOf(R"(<ir_version: 99, opset_import: ["" : 17]>
    net (float[2] x) => (float[2] y) { y = Relu(x) })")),
                  "IR version 99 is not supported"));
  EXPECT_TRUE(has(refusal(protoOf(R"(<ir_version: 8, opset_import: ["" : 17, "ai.onnx" : 13]>
    net (float[2] x) => (float[2] y) { y = Relu(x) })")),
                  "operator set 'ai.onnx' is imported as versions 17 and 13, expected one"));
  EXPECT_TRUE(has(refusal(protoOf(std::string(header) + R"(
    net (float[2] x) => (float[4] y) { y = Concat(x, x) })")),
                  "node 'Concat' (Concat, opset 17): attribute 'axis' is missing"));
}

TEST(ReadModel, refusesControlFlowByName) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] y) { y = If(x) })");
  proto.mutable_graph()->mutable_node(0)->set_name("branch");
  EXPECT_TRUE(has(refusal(proto), "node 'branch' (If, opset 17): this operator is not supported"));
}

TEST(ReadModel, inlinesFunctions) {
  onnx::ModelProto proto = protoOf(R"(<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
    net (float[2] x) => (float[2] y) { a = local.Twice(x)  y = local.Twice(a) })");
  onnx::FunctionProto &function = *proto.add_functions();
  function.set_domain("local");
  function.set_name("Twice");
  function.add_input("in");
  function.add_output("out");
  function.add_opset_import()->set_version(13);
  for (auto [from, to] : {std::pair("in", "middle"), std::pair("middle", "out")}) {
    onnx::NodeProto &node = *function.add_node();
    node.set_op_type("Relu");
    node.add_input(from);
    node.add_output(to);
  }
  proto.mutable_graph()->mutable_node(0)->set_name("first");
  Model model = read(proto);
  ASSERT_EQ(model.nodes.size(), 4u);
  EXPECT_EQ(model.nodes[0].name, "first/Relu");
  EXPECT_EQ(model.nodes[0].outputs[0], "first/middle");
  EXPECT_EQ(model.nodes[1].outputs[0], "a");
  EXPECT_EQ(model.nodes[3].outputs[0], "y");
  *proto.add_functions() = onnx::FunctionProto(proto.functions(0));
  EXPECT_TRUE(
      has(refusal(proto), "function 'local::Twice' is there twice; overloads are not supported"));
}

TEST(ReadModel, refusesRecursiveFunctions) {
  onnx::ModelProto proto = protoOf(R"(<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
    net (float[2] x) => (float[2] y) { y = local.Loop(x) })");
  onnx::FunctionProto &function = *proto.add_functions();
  function.set_domain("local");
  function.set_name("Loop");
  function.add_input("in");
  function.add_output("out");
  for (int i = 0; i < 2; ++i) {
    onnx::NodeProto &node = *function.add_node();
    node.set_op_type("Loop");
    node.set_domain("local");
    node.add_input("in");
    node.add_output(i ? "out" : "other");
  }
  EXPECT_TRUE(has(refusal(proto), "or themselves"));
}

TEST(ReadModel, checksSizesAgainstBytes) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] y) { y = Add(x, w) })");
  onnx::TensorProto &w = addInitializer(proto, "w", {1000000000, 1000000000, 1000000000}, {1});
  EXPECT_TRUE(has(refusal(proto), "initializer 'w': the shape has more elements"));
  w.clear_dims();
  w.add_dims(int64_t(1) << 40);
  w.add_dims(2);
  EXPECT_TRUE(has(refusal(proto), "initializer 'w': the shape has more elements"));
  w.clear_dims();
  w.add_dims(-2);
  EXPECT_TRUE(has(refusal(proto), "initializer 'w': dimension -2 is negative"));
  w.set_dims(0, 1 << 30);
  EXPECT_TRUE(has(refusal(proto), "needs 1073741824 elements, but float_data holds 1"));
  w.set_raw_data("abc");
  EXPECT_TRUE(has(refusal(proto), "but raw_data holds 3"));
}

TEST(ReadModel, theLargestIntegerStaysOne) {
  onnx::ModelProto proto = protoOf(R"(<ir_version: 4, opset_import: ["" : 9]>
    net (float[5] x) => (float[4] y) {
      y = Slice<starts = [1], ends = [9223372036854775807]>(x)
    })");
  Model model = read(proto);
  const ModelNode &slice = model.nodes.at(0);
  Tensor ends = readTensor(model.initializers.at(slice.inputs.at(2)));
  EXPECT_GT(ends.toIntegers().at(0), int64_t(1) << 62);
}

/// Constants are folded as doubles, which would make 2^53 of the first refused one.
TEST(ReadModel, integersThatADoubleCannotHoldAreRefused) {
  for (int64_t value : {(int64_t(1) << 53) + 1, -(int64_t(1) << 53) - 1, INT64_MAX - 1}) {
    onnx::ModelProto proto = protoOf(R"(<ir_version: 8, opset_import: ["" : 17]>
      net (float[5] x) => (float[5] y) { y = Reshape(x, shape) })");
    addShape(proto, "shape", {value});
    Model model = read(proto);
    EXPECT_THROW(readTensor(model.initializers.at("shape")), Error);
    onnx::ModelProto constant = protoOf(R"(<ir_version: 8, opset_import: ["" : 17]>
      net (float[5] x) => (float[5] y) { s = Constant<value_ints = [)" +
                                        std::to_string(value) + R"(]>()
        y = Reshape(x, s) })");
    EXPECT_TRUE(has(refusal(constant), "the integer " + std::to_string(value) +
                                           " is needed at compile time, expected at most "
                                           "9007199254740992 (2^53)"));
  }
  onnx::ModelProto proto = protoOf(R"(<ir_version: 8, opset_import: ["" : 17]>
    net (float[5] x) => (float[5] y) { y = Reshape(x, shape) })");
  addShape(proto, "shape", {int64_t(1) << 53, -INT64_MAX, INT64_MIN});
  EXPECT_EQ(readTensor(read(proto).initializers.at("shape")).data[0], 0x1p53);
}

TEST(ReadModel, refusesDamagedFiles) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] y) { a = Add(x, w)  y = Relu(a) })");
  addInitializer(proto, "w", {2}, {1, 2});
  std::string bytes = proto.SerializeAsString();
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(parseModel(bytes.substr(0, length), "cut.onnx"), Error) << length;
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = bytes;
    for (int change = 0; change < 3; ++change)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    try {
      parseModel(damaged, "damaged.onnx");
    } catch (const Error &) {
    }
  }
  std::string noise(4096, '\0');
  for (char &c : noise)
    c = static_cast<char>(random());
  EXPECT_THROW(parseModel(noise, "noise.onnx"), Error);
  EXPECT_THROW(readModel("no-such-file.onnx"), Error);
  EXPECT_THROW(readModel(TempDir()), Error);
}

/// The models beside the repository are not part of it: without them there is nothing to check.
class SharedModels : public ::testing::TestWithParam<const char *> {};

TEST_P(SharedModels, areRead) {
  std::filesystem::path path =
      std::filesystem::path(PDC_SOURCE_DIR) / "../shared/data/models" / GetParam();
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << GetParam() << " is not there";
  Model model = readModel(path);
  EXPECT_EQ(model.inputs.size(), 1u);
  EXPECT_EQ(model.outputs.size(), 1u);
  for (const auto &[name, initializer] : model.initializers)
    EXPECT_TRUE(initializer.fill || !initializer.bytes.empty()) << name;
}

INSTANTIATE_TEST_SUITE_P(light, SharedModels,
                         ::testing::Values("light_bvlc_alexnet.onnx", "light_resnet50.onnx",
                                           "light_squeezenet.onnx"));

static onnx::ModelProto differentiated(const std::string &gradient) {
  return protoOf(R"(<ir_version: 8, opset_import: ["" : 17, "ai.onnx.preview.training" : 1]>
    net (float[2] a, float[2] b) => (float[2] g) { )" +
                 gradient + " c = Add(a, b)  d = Mul(c, a) }");
}

/// A Gradient depends on the value that it differentiates, wherever it stands in the file.
TEST(ReadModel, gradientsReadWhatTheyDifferentiate) {
  Model model = read(differentiated(
      R"(g = ai.onnx.preview.training.Gradient<xs = ["a"], zs = ["b"], y = "d">(a, b))"));
  const ModelNode &gradient = model.nodes.back();
  EXPECT_EQ(gradient.op, "ai.onnx.preview.training.Gradient");
  EXPECT_EQ(gradient.inputs, (std::vector<std::string>{"a", "b", "d"}));
  EXPECT_NE(
      refusal(differentiated(R"(g = ai.onnx.preview.training.Gradient<xs = ["a"], y = "d">(b))"))
          .find("puts 'b' in the place of 'a'; pdc takes gradients at the values themselves"),
      std::string::npos);
}

/// As PyTorch's newer exporter tells modules, the network itself among them.
TEST(ReadModel, namesByModules) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] y) { a = Relu(x)  b = Tanh(a)  c = Exp(b)  y = Neg(c) })");
  const char *scopes[] = {"['', 'encoder', 'encoder.0', 'relu']", "['', 'tanh']",
                          "['_empty_nn_module_stack_from_metadata_hook', 'exp']", ""};
  for (int i = 0; i < 4; ++i) {
    onnx::NodeProto &node = *proto.mutable_graph()->mutable_node(i);
    node.set_name("node_" + std::to_string(i));
    if (*scopes[i])
      addMetadata(node, 9, "pkg.torch.onnx.name_scopes", scopes[i]);
  }
  std::vector<std::string> names;
  for (const ModelNode &node : read(proto).nodes)
    names.push_back(node.name);
  EXPECT_EQ(names, (std::vector<std::string>{"encoder.0/0", "node_1", "node_2", "node_3"}));
}
