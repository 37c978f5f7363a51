#include "compiler/onnx/Import.h"
#include "compiler/onnx/Binding.h"
#include "testsuite/onnx/ModelText.h"

#include "mlir/IR/Verifier.h"

using namespace pdc;
using namespace pdc::testing;

/// The module as text, or the refusal.
static std::string import(const Model &model, const ImportOptions &options = {}) {
  mlir::MLIRContext context;
  try {
    auto module = importModel(context, model, options);
    EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
    std::string text;
    llvm::raw_string_ostream out(text);
    module->print(out);
    return text;
  } catch (const Error &error) {
    return error.what();
  }
}

static Model small() {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[batch, 4] x) => (float[batch, 3] y) {
      h = Gemm<transB = 1>(x, w, b)
      n = BatchNormalization<training_mode = 1>(h, scale, shift, mean, var)
      d, mask = Dropout(n, ratio, training)
      y = Relu(d)
    })");
  addInitializer(proto, "w", {3, 4}, std::vector<float>(12, 1));
  for (const char *name : {"b", "scale", "shift", "mean", "var"})
    addInitializer(proto, name, {3}, {1, 1, 1});
  addInitializer(proto, "ratio", {}, {0.25});
  onnx::TensorProto &training = *proto.mutable_graph()->add_initializer();
  training.set_name("training");
  training.set_data_type(onnx::TensorProto::BOOL);
  training.add_int32_data(1);
  return read(proto);
}

static void expectLines(const std::string &text, const std::vector<std::string> &lines) {
  size_t at = 0;
  for (const std::string &line : lines) {
    size_t found = text.find(line, at);
    ASSERT_NE(found, std::string::npos) << line << "\nis not in\n" << text;
    at = found + line.size();
  }
}

TEST(Import, memoriesAndBothEntries) {
  std::string text = import(small(), {.microbatchSize = 8});
  expectLines(text, {"pdc.memory @x input microbatch : tensor<8x4xf32>",
                     "pdc.memory @labels input microbatch : tensor<8xi64>",
                     "pdc.memory @w weight version : tensor<3x4xf32> {initial = \"file\"}",
                     "pdc.memory @b weight version : tensor<3xf32>",
                     "pdc.memory @mean state microbatch : tensor<3xf32>",
                     "pdc.memory @pdc.random input microbatch : tensor<10xi64>",
                     "pdc.memory @pdc.loss metric update : tensor<f32>",
                     "func.func @train()",
                     "pdc.weight_version @w latest : tensor<3x4xf32>",
                     "pdc.node \"Gemm\" ",
                     "pdc.read @mean : tensor<3xf32>",
                     "pdc.node \"BatchNormInternal\" ",
                     "to @mean",
                     "to @var",
                     "pdc.read @pdc.random",
                     "pdc.node \"Dropout\" ",
                     "ratio = 2.500000e-01",
                     "pdc.node \"SoftmaxCrossEntropyLoss\" \"loss\"",
                     "into @pdc.loss ",
                     "into @pdc.loss_weight",
                     "func.func @evaluate()",
                     "pdc.node \"BatchNormalization\" ",
                     "training_mode = 0",
                     "pdc.node \"Relu\" ",
                     "into @pdc.evaluation_loss ",
                     "into @pdc.evaluation_loss_weight",
                     "pdc.node \"CorrectPredictions\"",
                     "into @pdc.evaluation_correct"});
  std::string evaluation = text.substr(text.find("@evaluate"));
  EXPECT_EQ(evaluation.find("Dropout"), std::string::npos);
}

TEST(Import, microbatchSize) {
  expectLines(import(small()), {"the first dimension 'batch' of the inputs has no size"});
  EXPECT_FALSE(fixedMicrobatchSize(small()));
  Model fixed = small();
  bindDimension(fixed, "batch", 2);
  EXPECT_EQ(fixedMicrobatchSize(fixed), 2);
  expectLines(import(fixed), {"tensor<2x4xf32>"});
  expectLines(import(fixed, {.microbatchSize = 3}),
              {"a microbatch has 2 samples in the file and cannot have 3"});
  expectLines(import(small(), {.microbatchSize = 2, .dimensions = {{"time", 3}}}),
              {"no dimension 'time'; there is batch"});
}

TEST(Import, parameters) {
  ImportOptions options{.microbatchSize = 2};
  options.parameters.train = {"w", "sc*"};
  expectLines(import(small(), options),
              {"@w weight version", "@b constant once", "@scale weight version"});
  options.parameters = {{}, {"w"}};
  expectLines(import(small(), options), {"@w constant once", "@b weight version"});
  options.parameters = {{"nothing*"}, {}};
  expectLines(import(small(), options), {"pattern 'nothing*' matches no initializer"});
  options.parameters = {{}, {"*"}};
  expectLines(import(small(), options), {"test.onnx: no initializer is left to train"});
  // Of buffers that are all frozen some are whole numbers.
  Model counted = small();
  counted.initializers["count"].type = {ElementType::i64, {1}};
  options.parameters = {{}, {"count", "w"}};
  expectLines(import(std::move(counted), options), {"@w constant once", "@b weight version"});
}

TEST(Import, lossOption) {
  expectLines(import(small(), {.microbatchSize = 2, .loss = "mse:y:target"}),
              {"@target input microbatch : tensor<2x3xf32>", "\"MeanSquaredError\"",
               "\"LossWeight\" \"loss_weight\"(%", ") {} "});
  expectLines(import(small(), {.microbatchSize = 2, .loss = "hinge"}),
              {"loss 'hinge' is unknown; expected one of cross_entropy, nll"});
  expectLines(import(small(), {.microbatchSize = 2, .loss = "nll:z"}),
              {"the model has no value 'z'; its outputs are 'y'"});
  expectLines(import(small(), {.microbatchSize = 2, .loss = "output"}),
              {"\"LossWeight\" \"loss_weight\"(%", ") {} "});
}

TEST(Import, lossOfTheGraph) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2, 3] x, int64[2] target) => (float loss) {
      y = MatMul(x, w)
      loss = SoftmaxCrossEntropyLoss<ignore_index = 7>(y, target)
    })");
  addInitializer(proto, "w", {3, 3}, std::vector<float>(9, 1));
  std::string text = import(read(proto));
  expectLines(text, {"@target input microbatch : tensor<2xi64>", "\"SoftmaxCrossEntropyLoss\" ",
                     "ignore_index = 7", "reduction = \"sum\""});
  EXPECT_EQ(text.find("@labels"), std::string::npos);
}

TEST(Import, softmaxBelongsToCrossEntropy) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, 3] p) { y = MatMul(x, w)  p = Softmax(y) })");
  addInitializer(proto, "w", {3, 3}, std::vector<float>(9, 1));
  EXPECT_EQ(import(read(proto)).find("\"Softmax\""), std::string::npos);
}

TEST(Import, fillsAndLiterals) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, 3] y) {
      w = ConstantOfShape<value = float[1] {0.5}>(shape)
      half = Constant<value = float {0.25}>()
      m = MatMul(x, w)
      s = Mul(m, half)
      t = Mul(s, const_fold_opt__12)
      y = Reshape(t, to)
    })");
  addShape(proto, "shape", {3, 3});
  addShape(proto, "to", {2, 3});
  addInitializer(proto, "const_fold_opt__12", {}, {3});
  proto.set_producer_name("tf2onnx");
  expectLines(import(read(proto)),
              {"@w weight version : tensor<3x3xf32> {initial = 5.000000e-01 : f64}",
               "pdc.node \"Constant\" \"half\"() {value = dense<2.500000e-01> : tensor<f32>}",
               "pdc.node \"Constant\" \"const_fold_opt__12\"() {value = dense<3.000000e+00>",
               "pdc.node \"Constant\" \"to\"() {value = dense<[2, 3]> : tensor<2xi64>}"});
}

/// An initializer that an operator asks for is no less known than a constant.
TEST(Import, scalesMayBeInitializers) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, N] y) {
      m = MatMul(x, w)
      y = Resize<mode = "nearest">(m, , scales)
    })");
  addInitializer(proto, "w", {3, 3}, std::vector<float>(9, 1));
  addInitializer(proto, "scales", {2}, {1, 2.5});
  proto.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  std::string text = import(read(proto), {.loss = "mse"});
  expectLines(text, {"pdc.memory @labels input microbatch : tensor<2x7xf32>"});
  EXPECT_EQ(text.find("pdc.memory @scales"), std::string::npos);
}

TEST(Import, literalsBehindAKnownOperandAreConstants) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, 6] y) {
      one = Constant<value = float[1] {1.0}>()
      two = Constant<value = float[2] {2.0, 2.0}>()
      first = Slice(two, begin, end)
      scales = Concat<axis = 0>(one, first)
      m = MatMul(x, w)
      y = Resize<mode = "nearest">(m, , scales)
    })");
  addInitializer(proto, "w", {3, 3}, std::vector<float>(9, 1));
  addShape(proto, "begin", {0});
  addShape(proto, "end", {1});
  std::string text = import(read(proto));
  expectLines(text, {"pdc.node \"Constant\" \"one\"() {value = dense<1.000000e+00> : tensor<1xf32>}"});
  EXPECT_EQ(text.find("pdc.memory @two"), std::string::npos);
}

TEST(Import, hostileNamesStayData) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, 3] y) { m = MatMul(x, w)  y = Relu(m) })");
  addInitializer(proto, "w", {3, 3}, std::vector<float>(9, 1));
  const std::string name = "x\"); system(\"true";
  proto.mutable_graph()->mutable_node(1)->set_name(name);
  proto.mutable_graph()->mutable_node(0)->set_input(1, name);
  proto.mutable_graph()->mutable_initializer(0)->set_name(name);
  expectLines(import(read(proto)), {"pdc.memory @\"x\\22); system(\\22true\" weight"});
  proto.mutable_graph()->mutable_node(0)->set_input(1, "train");
  proto.mutable_graph()->mutable_initializer(0)->set_name("train");
  expectLines(import(read(proto)), {"'train': this name is needed"});
}

/// The models beside the repository are not part of it: without them there is nothing to check.
class SharedModels : public ::testing::TestWithParam<const char *> {};

TEST_P(SharedModels, areImported) {
  std::filesystem::path path =
      std::filesystem::path(PDC_SOURCE_DIR) / "../shared/data/models" / GetParam();
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << GetParam() << " is not there";
  std::string text = import(readModel(path));
  expectLines(text, {" weight version ", "@train", "@pdc.loss", "@evaluate"});
  EXPECT_EQ(text.find("\"Softmax\""), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(light, SharedModels,
                         ::testing::Values("light_bvlc_alexnet.onnx", "light_resnet50.onnx",
                                           "light_squeezenet.onnx"));

TEST(Import, quickstartNetwork) {
  Model model = readModel(std::filesystem::path(PDC_SOURCE_DIR) / "tools/models/fashion.onnx");
  expectLines(import(model, {.microbatchSize = 16}),
              {"pdc.memory @input input microbatch : tensor<16x1x28x28xf32>",
               "pdc.node \"Conv\" \"/conv1/Conv\"", "pdc.node \"BatchNormInternal\" \"/norm1/"});
}

/// The operators of both entries in order, without constants.
static std::string operatorsOf(const std::string &text) {
  const std::string before = "pdc.node \"", constant = "Constant";
  std::string result;
  for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + 1)) {
    size_t begin = at + before.size();
    std::string op = text.substr(begin, text.find('"', begin) - begin);
    if (op != constant)
      result += op + " ";
  }
  return result;
}

TEST(Import, opsetsOfOneNetworkGiveOneGraph) {
  std::filesystem::path seeds = std::filesystem::path(PDC_SOURCE_DIR) / "testsuite/onnx/fuzz/seeds";
  auto operators = [&](const char *file) {
    return operatorsOf(import(readModel(seeds / file), {.microbatchSize = 2}));
  };
  EXPECT_EQ(operators("torch-9.onnx"), operators("torch-17.onnx"));
  EXPECT_EQ(operators("torch-13.onnx"), operators("torch-17.onnx"));
  EXPECT_NE(operators("torch-17.onnx").find("BatchNormInternal Relu MaxPool"), std::string::npos);
}

/// A matrix product has its classes in the last dimension, so labels have one number per position,
/// and samples that pad a batch have labels that the loss ignores.
TEST(Import, classesOfMatrixProductsAreLast) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2, 3, 4] x) => (float[2, 3, 5] y) { y = MatMul(x, w) })");
  onnx::TensorProto &w = *proto.mutable_graph()->add_initializer();
  w.set_name("w");
  w.set_data_type(onnx::TensorProto::FLOAT);
  w.add_dims(4), w.add_dims(5);
  for (int i = 0; i < 20; ++i)
    w.add_float_data(1);
  expectLines(import(read(proto)),
              {"pdc.memory @labels input microbatch : tensor<2x3xi64> {initial = -1.000000e+02",
               "pdc.node \"Flatten\"", "pdc.node \"Reshape\""});
}

static const char *unknownTokens =
    "'t': dimension 'tokens' has no size; give one, as in --bind tokens=128";

/// Scores of all tokens as rows: the labels of each sample stay together.
TEST(Import, labelsOfPositions) {
  auto tokens = [](const std::string &body) {
    onnx::ModelProto proto = protoOf(std::string(header) + R"(
      net (float[batch, 5, 4] x, int64[tokens] t) => (float y) {
        rows = Constant<value_ints = [-1, 4]>()
        )" + body + "}");
    addInitializer(proto, "w", {4, 3}, std::vector<float>(12, 1));
    addInitializer(proto, "b", {3}, {1, 1, 1});
    return import(read(proto), {.microbatchSize = 2});
  };
  const std::string scores = R"(
    flat = Reshape(x, rows)
    product = MatMul(flat, w)
    scores = Add(product, b)
    y = SoftmaxCrossEntropyLoss(scores, t))";
  expectLines(tokens(scores), {"pdc.memory @t input microbatch : tensor<2x5xi64> {initial",
                               "\"Reshape\" \"flat_labels\""});
  std::string others = scores; // rows of other things than positions of samples
  others.replace(others.find("Reshape(x, rows)"), 16,
                 "Reshape(z, rows)  z = Transpose<perm = [1, 0, 2]>(x)");
  EXPECT_TRUE(tokens(others).starts_with(unknownTokens)) << tokens(others);
}

/// As in ONNX Runtime's training graphs, whose labels have a name of their own for the samples; a
/// weight says how many features there are.
TEST(Import, dimensionsThatTheGraphLeavesNoChoice) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[inputs, features] x, int64[outputs] t) => (float y) {
      scores = Gemm<transB = 1>(x, w)
      y = SoftmaxCrossEntropyLoss(scores, t) })");
  addInitializer(proto, "w", {3, 4}, std::vector<float>(12, 1));
  expectLines(import(read(proto), {.microbatchSize = 2}),
              {"pdc.memory @x input microbatch : tensor<2x4xf32>",
               "pdc.memory @t input microbatch : tensor<2xi64>"});
  EXPECT_EQ(import(read(proto), {.microbatchSize = 2, .dimensions = {{"features", 5}}}),
            "node 'Gemm' (Gemm): inner dimensions of f32[2,5] and f32[3,4] differ: 5 and 4");
}

/// Where a microbatch has as many samples as a sample positions, sizes alone do not tell which
/// dimension is which.
TEST(Import, labelsOfAsManyPositionsAsSamples) {
  auto tokens = [](const std::string &batch, const std::string &rows) {
    onnx::ModelProto proto = protoOf(std::string(header) + "net (float[" + batch + R"(, 5, 4] x,
        int64[tokens] t) => (float y) {
        shape = Constant<value_ints = [-1, 4]>()
        z = Transpose<perm = [1, 0, 2]>(x)
        flat = Reshape()" + rows + R"(, shape)
        scores = MatMul(flat, w)
        y = SoftmaxCrossEntropyLoss(scores, t) })");
    addInitializer(proto, "w", {4, 3}, std::vector<float>(12, 1));
    return import(read(proto), {.microbatchSize = 5});
  };
  expectLines(tokens("batch", "x"), {"pdc.memory @t input microbatch : tensor<5x5xi64>"});
  EXPECT_TRUE(tokens("batch", "z").starts_with(unknownTokens));
  EXPECT_TRUE(tokens("5", "x").starts_with(unknownTokens)) << "it cannot be told";
  EXPECT_TRUE(tokens("5", "z").starts_with(unknownTokens));
}

TEST(Import, axesAreIntegers) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[batch, 4] x) => (float[batch, 4] y) {
      u = Unsqueeze(x, a)
      f = Flatten(u)
      y = MatMul(f, w) })");
  addInitializer(proto, "a", {1}, {1.5});
  addInitializer(proto, "w", {4, 4}, std::vector<float>(16, 1));
  EXPECT_EQ(import(read(proto), {.microbatchSize = 2}),
            "node 'Unsqueeze' (Unsqueeze): input 1 is f32[1], expected integers");
}

TEST(Import, elementBehindTheSequence) {
  auto element = [](const std::string &index) {
    onnx::ModelProto proto = protoOf(std::string(header) + R"(
      net (float[batch, 8] x) => (float[batch, 2] y) {
        two = Constant<value_int = 2>()
        at = Constant<value_int = )" +
                                     index + R"(>()
        r = MatMul(x, w)
        s = SplitToSequence<axis = 1>(r, two)
        y = SequenceAt(s, at) })");
    addInitializer(proto, "w", {8, 8}, std::vector<float>(64, 1));
    return import(read(proto), {.microbatchSize = 3});
  };
  expectLines(element("3"), {"pdc.node \"Slice\""});
  const std::string found = element("4");
  for (const char *part : {"'y/Slice'", "reads an element of a sequence that is not there"})
    EXPECT_NE(found.find(part), std::string::npos) << found;
}

/// What is wrong with a number in the file is found before anything runs, where it stands.
TEST(Import, numbersOutsideTheirDimension) {
  auto refused = [](const std::string &nodes, const std::string &input = "batch, 8") {
    onnx::ModelProto proto = protoOf(std::string(header) + "net (float[" + input +
                                     "] x) => (float[a, b] y) {" + nodes + "}");
    addInitializer(proto, "w", {8, 8}, std::vector<float>(64, 1));
    return import(read(proto), {.microbatchSize = 3});
  };
  auto expect = [](const std::string &found, const std::string &part) {
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  expect(refused("i = Constant<value_ints = [0, 8]>() r = MatMul(x, w) y = Gather<axis = 1>(r, i)"),
         "(Gather): index 8 is outside dimension 1 of [3,8]");
  expect(refused("i = Constant<value_ints = [-9]>() r = MatMul(x, w) y = Gather<axis = 1>(r, i)"),
         "(Gather): index -9 is outside dimension 1 of [3,8]");
  expect(refused("i = Constant<value_ints = [-8]>() r = MatMul(x, w) y = Gather<axis = 1>(r, i)"),
         "pdc.node \"Gather\"");
  expect(refused("a = Constant<value_ints = [5]>() b = Constant<value_ints = [2]>() "
                 "d = Constant<value_ints = [1]>() r = MatMul(x, w) y = Slice(r, a, b, d)"),
         "loss: 'y' is f32[3,0] and has no element to train on; look for an empty slice before it");
  expect(refused("y = MatMul(x, w)", "batch, 4611686018427387904, 8"),
         "'x': f32[3,4611686018427387904,8] has more than 1099511627776 elements; bind");
}
