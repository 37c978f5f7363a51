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
  addSignature(model, "b_mean1: BUFFER target='mean1' persistent=True\n"
                      "getitem_7: BUFFER_MUTATION target='mean2'\n");
  EXPECT_EQ(frozenOf(model), NameSet{"first"});
}

/// A normalisation of h by what these lines make, `mean` and `var`.
static onnx::ModelProto computedStatistics(const std::string &lines, const std::string &said = "",
                                           const std::string &variance = "var") {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[4, 3] x) => (float[4, 3] y) {
      h = MatMul(x, weight)
      )" + lines + "\n y = BatchNormalization" +
                                   said + "(h, scale, shift, mean, " + variance + ") }");
  addInitializer(model, "weight", {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (const char *name : {"scale", "shift", "file_mean", "file_var"})
    addInitializer(model, name, {3}, {1, 2, 3});
  model.mutable_graph()->mutable_node(model.graph().node_size() - 1)->set_name("norm");
  return model;
}

static const std::string meanOf(const std::string &value, const std::string &axis = "0") {
  return " = ReduceMean<axes = [" + axis + "], keepdims = 0>(" + value + ")\n";
}

/// As PyTorch's newer exporter writes a module that keeps none.
static const std::string ofBatch = "mean" + meanOf("h") + "inner" + meanOf("h") +
                                   "centred = Sub(h, inner) square = Mul(centred, centred)\n" +
                                   "var" + meanOf("square");

enum class Training { batch, running, given };

static Training trainingOf(const onnx::ModelProto &model) {
  const Normalisations chosen = chooseNormalisations(read(model), {});
  EXPECT_EQ(chosen.active.size() + chosen.frozen.size() + chosen.given.size(), 1u);
  if (chosen.given.contains("norm"))
    return Training::given;
  return chosen.active.contains("norm") ? Training::batch : Training::running;
}

TEST(Normalisations, computedStatistics) {
  EXPECT_EQ(trainingOf(computedStatistics(ofBatch)), Training::batch);
  for (const std::string &lines :
       {"mean" + meanOf("x") + "var" + meanOf("x"),                           // of another value
        "mean" + meanOf("h") + "square = Mul(h, h)\n var" + meanOf("square"), // not centred
        "mean" + meanOf("h", "1") + "var" + meanOf("h", "1"),                 // of other dimensions
        "mean" + meanOf("h") + "var = Identity(file_var)",                    // the one of the file
        "mean = Identity(file_mean)\n var" + meanOf("h")}) {
    EXPECT_EQ(trainingOf(computedStatistics(lines)), Training::given) << lines;
    // What the operator says, whatever its operands are.
    EXPECT_EQ(trainingOf(computedStatistics(lines, "<training_mode = 1>")), Training::batch);
  }
  // Tensors of the file under another shape or width are running statistics.
  EXPECT_EQ(trainingOf(computedStatistics("mean = Neg(file_mean) var = Neg(file_var)")),
            Training::batch);
}

static std::string trainOf(const onnx::ModelProto &model, std::string *evaluate = nullptr) {
  mlir::MLIRContext context;
  std::string text;
  llvm::raw_string_ostream(text) << *importModel(context, read(model), {});
  const size_t end = text.find("@evaluate");
  if (evaluate)
    *evaluate = text.substr(end);
  return text.substr(0, end);
}

/// Files of PyTorch lose what detached them.
TEST(Normalisations, givenOnesTakeNoGradientInPyTorch) {
  onnx::ModelProto model = computedStatistics("mean" + meanOf("x") + "var" + meanOf("x"));
  EXPECT_EQ(countOf(trainOf(model), "pdc.StopGradient"), 0);
  model.set_producer_name("pytorch");
  EXPECT_EQ(trainingOf(model), Training::given);
  std::string evaluate;
  EXPECT_EQ(countOf(trainOf(model, &evaluate), "pdc.StopGradient"), 2);
  EXPECT_EQ(countOf(evaluate, "pdc.StopGradient"), 0);
  // Those of the batch have gradients, whatever metadata a tool has left.
  onnx::ModelProto own = computedStatistics(ofBatch);
  own.set_producer_name("pytorch");
  EXPECT_EQ(trainingOf(own), Training::batch);
}

/// A statistic of the file is kept beside one that is computed.
TEST(Normalisations, eachStatisticIsComputedOrKept) {
  const std::string train =
      trainOf(computedStatistics("mean" + meanOf("x"), "<training_mode = 1>", "file_var"));
  EXPECT_EQ(countOf(train, "to @file_var"), 1);
  EXPECT_EQ(countOf(train, "pdc.read @file_var"), 1);
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
  addSignature(model, "getitem_8: BUFFER_MUTATION target='mean'\n"
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
