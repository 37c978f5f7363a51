#include "testsuite/onnx/ParametersText.h"

using namespace pdc;
using namespace pdc::testing;

static void declareKind(onnx::ModelProto &model, const std::string &name, const std::string &kind) {
  onnx::ValueInfoProto &value = *model.mutable_graph()->add_value_info();
  value.set_name(name);
  addMetadata(value, 4, "pkg.torch.export.graph_signature.InputSpec.kind", kind);
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

TEST(ExporterMetadata, kinds) {
  EXPECT_EQ(trainedOf(read(scaled())), (NameSet{"f", "s", "t", "w"}));
  onnx::ModelProto model = scaled();
  declareKind(model, "s", "PARAMETER");
  declareKind(model, "t", "BUFFER");
  EXPECT_EQ(trainedOf(read(model)), (NameSet{"s", "w"}))
      << "f and w were folded, w a factor of a product";
  declareKind(model, "c", "PARAMETER");
  EXPECT_EQ(trainedOf(read(model)), (NameSet{"s", "w"})) << "integers are not trained";
}

TEST(ExporterMetadata, lostParameters) {
  onnx::ModelProto model = scaled();
  for (const char *name : {"s", "t", "f", "w"})
    declareKind(model, name, "PARAMETER");
  addSignature(model, "# inputs\np_s: PARAMETER target='s'\np_b: PARAMETER target='fc.bias'\n"
                      "b_m: BUFFER target='mean' persistent=True\nx: USER_INPUT\n");
  EXPECT_TRUE(read(model).metadata.lostParameters.empty())
      << "one that is not read, or has two names";
  onnx::ModelProto folded = model;
  folded.mutable_graph()->mutable_value_info()->RemoveLast();
  EXPECT_EQ(read(folded).metadata.lostParameters, std::vector<std::string>{"fc.bias"});
  try {
    initializersMatching(read(folded), "fc.*");
    ADD_FAILURE() << "a parameter that is lost matches nothing";
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("optimize=False"), std::string::npos) << error.what();
  }
  addMetadata(*model.mutable_graph()->mutable_node(0), 9, "pkg.onnxscript.rewriter.rule_name",
              "RemoveBias");
  EXPECT_EQ(read(model).metadata.lostParameters, std::vector<std::string>{"fc.bias"});
}

static void declareFolded(onnx::ModelProto &model, const std::string &name,
                          const std::string &from) {
  onnx::ValueInfoProto &value = *model.mutable_graph()->add_value_info();
  value.set_name(name);
  addMetadata(value, 4, "pkg.onnxscript.optimizer.folded_from", from);
}

/// Weights in another form are trained; what stands where weights do and was made of a buffer, or
/// of ones, is not.
TEST(ExporterMetadata, foldedFromNoParameter) {
  onnx::ModelProto model = twoLayers();
  for (const char *name : {"b1", "b2"})
    declareKind(model, name, "PARAMETER");
  declareFolded(model, "w1", "['fc.weight', 'val_3']");
  declareFolded(model, "w2", "['ones', 'table']");
  EXPECT_EQ(trainedOf(read(model)), (NameSet{"b1", "b2", "w1", "w2"}))
      << "nothing tells parameters";
  addSignature(model, "p_w: PARAMETER target='fc.weight'\np_b1: PARAMETER target='b1'\n"
                      "p_b2: PARAMETER target='b2'\nb_t: BUFFER target='table' persistent=True\n");
  EXPECT_EQ(trainedOf(read(model)), (NameSet{"b1", "b2", "w1"}));
  EXPECT_EQ(reasonsOf(read(model)).at("w2"), "made by its exporter");
}

/// A graph input's own kind says nothing of initializers.
TEST(ExporterMetadata, metadataOfInputsOnly) {
  onnx::ModelProto model = twoLayers();
  addMetadata(*model.mutable_graph()->mutable_input(0), 4,
              "pkg.torch.export.graph_signature.InputSpec.kind", "USER_INPUT");
  EXPECT_EQ(trainedOf(read(model)), (NameSet{"b1", "b2", "w1", "w2"}));
  addSignature(model, "p_w1: PARAMETER target='w1'\np_b1: PARAMETER target='b1'\n"
                      "p_w2: PARAMETER target='w2'\nb_b2: BUFFER target='b2' persistent=True\n");
  EXPECT_EQ(trainedOf(read(model)), (NameSet{"b1", "w1", "w2"})) << "the signature names targets";
  EXPECT_TRUE(read(model).metadata.lostParameters.empty());
  EXPECT_EQ(reasonsOf(read(model)).at("b2"), "a buffer, by its exporter");
}

/// A buffer may come from other weights; what its exporter wrote is a constant of the graph.
TEST(ExporterMetadata, writtenNumbers) {
  onnx::ModelProto model = twoLayers();
  for (const char *name : {"val_1", "factor", "layer.scale"})
    addInitializer(model, name, {}, {0.5});
  auto written = [](const onnx::ModelProto &proto) {
    const Model model = read(proto);
    NameSet names;
    for (const auto &[name, initializer] : model.initializers)
      if (initializer.type.elementCount() == 1 && isWrittenNumber(model, initializer))
        names.insert(name);
    return names;
  };
  for (int i : {0, 1, 2}) {
    onnx::NodeProto &node = *model.mutable_graph()->add_node();
    node.set_op_type("Mul");
    node.add_input(i == 0 ? "c" : "factor_" + std::to_string(i - 1));
    node.add_input(i == 0 ? "val_1" : i == 1 ? "factor" : "layer.scale");
    node.add_output("factor_" + std::to_string(i));
  }
  model.mutable_graph()->mutable_node(3)->set_input(0, "factor_2");
  EXPECT_EQ(written(model), NameSet{}) << "a network may have a factor";
  model.set_producer_name("tf2onnx");
  EXPECT_EQ(written(model), (NameSet{"val_1", "factor", "layer.scale"}));
  model.set_producer_name("pytorch");
  EXPECT_EQ(written(model), NameSet{});
  declareKind(model, "w1", "PARAMETER");
  declareKind(model, "factor", "BUFFER");
  declareKind(model, "layer.scale", "CONSTANT_TENSOR");
  EXPECT_EQ(written(model), (NameSet{"val_1", "layer.scale"}));
  const auto told = reasonsOf(read(model));
  EXPECT_TRUE(told.contains("factor") && !told.contains("val_1"));
}

TEST(ExporterMetadata, layersAddedByHand) {
  onnx::ModelProto model = twoLayers();
  declareKind(model, "w1", "PARAMETER");
  declareKind(model, "b1", "PARAMETER");
  onnx::ModelProto whole = model;
  addSignature(whole, "p_w1: PARAMETER target='w1'\np_b1: PARAMETER target='b1'\n");
  EXPECT_EQ(trainedOf(read(whole)), (NameSet{"b1", "b2", "w1", "w2"}));
  onnx::ModelProto folded = model;
  addSignature(folded, "p_w1: PARAMETER target='w1'\np_b: PARAMETER target='fc.bias'\n");
  EXPECT_EQ(trainedOf(read(folded)), (NameSet{"b1", "w1", "w2"}));
  EXPECT_EQ(reasonsOf(read(folded)).at("b2"), "made by its exporter");
  for (int i : {0, 1})
    addMetadata(*folded.mutable_graph()->mutable_node(i), 9, "pkg.torch.onnx.fx_node", "linear");
  EXPECT_EQ(trainedOf(read(folded)), (NameSet{"b1", "b2", "w1", "w2"}))
      << "nodes without the exporter's notes are another's";
  addMetadata(*whole.mutable_graph()->mutable_node(3), 9, "pkg.torch.onnx.fx_node", "add");
  EXPECT_EQ(trainedOf(read(whole)), (NameSet{"b1", "w1", "w2"})) << "a mask or a table";
}

/// Half precision is folded as single precision is.
TEST(ExporterMetadata, lostParametersInHalf) {
  onnx::ModelProto model = twoLayers();
  for (const char *name : {"w1", "b1", "w2"})
    declareKind(model, name, "PARAMETER");
  addSignature(model, "p_b: PARAMETER target='fc.bias'\n");
  onnx::TensorProto &half = *model.mutable_graph()->mutable_initializer(3);
  half.clear_float_data();
  half.set_data_type(onnx::TensorProto::FLOAT16);
  half.set_raw_data(std::string(6, '\0'));
  onnx::NodeProto &cast = *model.mutable_graph()->mutable_node(3);
  ASSERT_EQ(cast.input(1), "b2");
  cast.set_input(1, "b2_single");
  onnx::NodeProto made;
  made.set_op_type("Cast");
  made.add_input("b2");
  made.add_output("b2_single");
  onnx::AttributeProto &to = *made.add_attribute();
  to.set_name("to");
  to.set_type(onnx::AttributeProto::INT);
  to.set_i(onnx::TensorProto::FLOAT);
  *model.mutable_graph()->add_node() = made;
  EXPECT_EQ(read(model).metadata.lostParameters, std::vector<std::string>{"fc.bias"});
}
