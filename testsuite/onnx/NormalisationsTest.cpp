#include "compiler/onnx/Normalisations.h"
#include "compiler/onnx/Import.h"
#include "testsuite/onnx/ModelText.h"

using namespace pdc;
using namespace pdc::testing;

using NameSet = std::set<std::string>;

/// Two that say of themselves what is in the angle brackets.
static onnx::ModelProto twoNormalised(const std::string &first, const std::string &second) {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[4, 3] x) => (float[4, 3] y) {
      a = BatchNormalization)" + first +
                                   R"((x, scale1, shift1, mean1, var1)
      y = BatchNormalization)" + second +
                                   R"((a, scale2, shift2, mean2, var2) })");
  for (const char *name : {"scale", "shift", "mean", "var"})
    for (const char *number : {"1", "2"})
      addInitializer(model, std::string(name) + number, {3}, {1, 2, 3});
  model.mutable_graph()->mutable_node(0)->set_name("first");
  model.mutable_graph()->mutable_node(1)->set_name("second");
  return model;
}

static int64_t countOf(std::string_view text, std::string_view part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

static NameSet frozenOf(const onnx::ModelProto &model,
                        const std::vector<std::string> &freeze = {}) {
  return chooseNormalisations(read(model), freeze).frozen;
}

TEST(Normalisations, thoseThatTheFileFreezes) {
  const char *trains = "<training_mode = 1>", *stays = "<training_mode = 0>";
  EXPECT_EQ(frozenOf(twoNormalised(stays, trains)), NameSet{"first"});
  EXPECT_EQ(frozenOf(twoNormalised("", trains)), NameSet{"first"});
  EXPECT_EQ(frozenOf(twoNormalised(trains, trains)), NameSet{});
  EXPECT_TRUE(chooseNormalisations(read(twoNormalised(trains, stays)), {}).areTold);
}

/// A file for inference, and of an exporter that drops the attribute.
TEST(Normalisations, allTrainWhereTheFileSaysOfNone) {
  for (const char *said : {"", "<training_mode = 0>"}) {
    const Model model = read(twoNormalised(said, said));
    const Normalisations chosen = chooseNormalisations(model, {});
    EXPECT_FALSE(chosen.areTold);
    EXPECT_EQ(chosen.active, (NameSet{"first", "second"}));
    EXPECT_EQ(runningStatistics(model), (NameSet{"mean1", "mean2", "var1", "var2"}));
    EXPECT_EQ(runningStatistics(model, {"first"}), (NameSet{"mean2", "var2"}));
  }
}

/// PyTorch's newer exporter drops the attribute and says which buffers a step changes.
TEST(Normalisations, buffersThatAStepChanges) {
  onnx::ModelProto model = twoNormalised("", "");
  addMetadata(*model.mutable_graph(), 16, "pkg.torch.export.ExportedProgram.graph_signature",
              "b_mean1: BUFFER target='mean1' persistent=True\n"
              "getitem_7: BUFFER_MUTATION target='mean2'\n");
  EXPECT_EQ(frozenOf(model), NameSet{"first"});
}

/// Of what stands before, and of the very batch, as exporters write it for modules that keep none.
static onnx::ModelProto computedStatistics(const std::string &said) {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[4, 3] x) => (float[4, 3] y) {
      h = MatMul(x, weight)
      mean = ReduceMean<axes = [0], keepdims = 0>(x)
      square = Mul(x, x)
      var = ReduceMean<axes = [0], keepdims = 0>(square)
      a = BatchNormalization(h, scale, shift, mean, var)
      turned = Transpose<perm = [1, 0]>(a)
      own_mean = ReduceMean<axes = [1], keepdims = 0>(turned)
      own_square = Mul(turned, turned)
      own_var = ReduceMean<axes = [1], keepdims = 0>(own_square)
      y = BatchNormalization)" + said +
                                   R"((a, scale, shift, own_mean, own_var) })");
  addInitializer(model, "weight", {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (const char *name : {"scale", "shift"})
    addInitializer(model, name, {3}, {1, 2, 3});
  model.mutable_graph()->mutable_node(4)->set_name("of_others");
  model.mutable_graph()->mutable_node(9)->set_name("own");
  return model;
}

TEST(Normalisations, computedStatistics) {
  for (const char *said : {"", "<training_mode = 1>"}) {
    const Model model = read(computedStatistics(said));
    const Normalisations chosen = chooseNormalisations(model, {});
    EXPECT_EQ(chosen.given, NameSet{"of_others"});
    EXPECT_EQ(chosen.active, NameSet{"own"});
    EXPECT_EQ(untrainedNormalisations(model, {}), NameSet{"of_others"});
    EXPECT_EQ(runningStatistics(model), NameSet{});
    mlir::MLIRContext context;
    auto module = importModel(context, model, {});
    std::string text;
    llvm::raw_string_ostream(text) << *module;
    const std::string train = text.substr(0, text.find("@evaluate"));
    const std::string evaluate = text.substr(train.size());
    EXPECT_EQ(countOf(train, "\"pdc.StopGradient\""), 2);
    EXPECT_EQ(countOf(evaluate, "\"pdc.StopGradient\""), 0);
    EXPECT_EQ(countOf(train, "\"BatchNormInternal\" \"own\""), 1);
    EXPECT_EQ(countOf(evaluate, "\"BatchNormalization\""), 2);
  }
}

/// The operands of a node that hold statistics.
static std::vector<std::string> statisticsOf(const Model &model, size_t node) {
  return {model.nodes.at(node).inputs.begin() + 3, model.nodes.at(node).inputs.end()};
}

/// Of a module that is called again the second call reads what the first has left, which that
/// exporter writes as Identity of what both begin with.
TEST(Normalisations, buffersOfAModuleThatIsCalledAgain) {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[4, 3] x) => (float[4, 3] y) {
      a = BatchNormalization(x, scale, shift, mean, var)
      getitem_3 = Identity(mean)
      getitem_4 = Identity(var)
      y = BatchNormalization(a, scale, shift, getitem_3, getitem_4) })");
  for (const char *name : {"scale", "shift", "mean", "var"})
    addInitializer(model, name, {3}, {1, 2, 3});
  addMetadata(*model.mutable_graph(), 16, "pkg.torch.export.ExportedProgram.graph_signature",
              "getitem_8: BUFFER_MUTATION target='mean'\n"
              "getitem_9: BUFFER_MUTATION target='var'\n");
  EXPECT_EQ(frozenOf(model), NameSet{});
  EXPECT_EQ(statisticsOf(read(model), 1), (std::vector<std::string>{"mean", "var"}));
}

/// As an optimizer leaves them that makes equal tensors one.
TEST(Normalisations, statisticsThatAreOneWithOthers) {
  const char *trains = "<training_mode = 1>";
  onnx::ModelProto model = twoNormalised(trains, trains);
  onnx::GraphProto &graph = *model.mutable_graph();
  auto rename = [&](int node, std::initializer_list<std::pair<int, const char *>> operands) {
    for (auto [operand, name] : operands)
      graph.mutable_node(node)->set_input(operand, name);
  };
  graph.mutable_initializer(0)->set_name("block.weight");
  rename(0, {{1, "block.weight"}, {3, "mean2"}, {4, "block.weight"}});
  Model parsed = read(model);
  EXPECT_EQ(statisticsOf(parsed, 0),
            (std::vector<std::string>{"block.running_mean", "block.running_var"}));
  EXPECT_EQ(statisticsOf(parsed, 1), (std::vector<std::string>{"second.running_mean", "var2"}));
  EXPECT_EQ(parsed.nodes.at(0).inputs.at(1), "block.weight");
  EXPECT_EQ(readTensor(parsed.initializers.at("block.running_var")).data,
            readTensor(parsed.initializers.at("block.weight")).data);
  const Loss loss = chooseLoss(parsed, "");
  EXPECT_EQ(chooseParameters(parsed, loss, {}),
            (NameSet{"block.weight", "scale2", "shift1", "shift2"}));

  // One module that is used twice.
  rename(1, {{1, "block.weight"}, {2, "shift1"}, {3, "mean2"}, {4, "block.weight"}});
  parsed = read(model);
  EXPECT_EQ(statisticsOf(parsed, 0), (std::vector<std::string>{"mean2", "block.running_var"}));
  EXPECT_EQ(statisticsOf(parsed, 1), statisticsOf(parsed, 0));
}

TEST(Normalisations, thoseThatAPatternFreezes) {
  const onnx::ModelProto model = twoNormalised("<training_mode = 1>", "<training_mode = 1>");
  EXPECT_EQ(frozenOf(model, {"mean2"}), NameSet{"second"});
  EXPECT_EQ(frozenOf(model, {"scale1", "*2"}), NameSet{"second"}) << "a scale alone is a parameter";
  const Model parsed = read(model);
  EXPECT_EQ(chooseParameters(parsed, chooseLoss(parsed, ""), {{}, {"mean2", "*1"}}),
            (NameSet{"scale2", "shift2"}));
  EXPECT_THROW(chooseParameters(parsed, chooseLoss(parsed, ""), {{"mean2"}, {}}), Error);
}

/// Frozen statistics are constants, which are in checkpoints too, and nothing writes them.
TEST(Normalisations, frozenOnesInTheModule) {
  mlir::MLIRContext context;
  auto module =
      importModel(context, read(twoNormalised("<training_mode = 0>", "<training_mode = 1>")), {});
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  const std::string train = text.substr(0, text.find("@evaluate"));
  for (const char *part : {"@mean1 constant once", "@var1 constant once", "@mean2 state microbatch",
                           "\"BatchNormalization\" \"first\"", "\"BatchNormInternal\" \"second\"",
                           "to @mean2", "to @var2"})
    EXPECT_NE(train.find(part), std::string::npos) << part << "\nis not in\n" << train;
  EXPECT_EQ(train.find("to @mean1"), std::string::npos);
}
