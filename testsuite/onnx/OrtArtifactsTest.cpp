#include "compiler/onnx/OrtCheckpoint.h"
#include "compiler/onnx/Parameters.h"
#include "testsuite/onnx/ModelText.h"

#include <cstring>
#include <fstream>
#include <random>

using namespace pdc;
using namespace pdc::testing;
namespace fs = std::filesystem;

/// Written by Google's FlatBuffers library by ONNX Runtime's schema: trained b = [0.5, -1] and
/// w = [[1, 2], [3, 4], [5, 6]], frozen fixed = [7], one group of step 0 and learning rate 0.25.
static const std::string checkpointBytes(
    "\x14\x00\x00\x00\x4f\x44\x54\x43\x00\x00\x0a\x00\x10\x00\x0c\x00\x08\x00\x04\x00\x0a\x00"
    "\x00\x00\x0c\x00\x00\x00\x3c\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x10\x00\x00\x00"
    "\x00\x00\x0a\x00\x0c\x00\x08\x00\x00\x00\x04\x00\x0a\x00\x00\x00\x00\x00\x80\x3e\x04\x00"
    "\x00\x00\x06\x00\x00\x00\x67\x72\x6f\x75\x70\x30\x00\x00\x08\x00\x0c\x00\x08\x00\x04\x00"
    "\x08\x00\x00\x00\x08\x00\x00\x00\x44\x00\x00\x00\x01\x00\x00\x00\x04\x00\x00\x00\x6a\xff"
    "\xff\xff\x2c\x00\x00\x00\x01\x00\x00\x00\x14\x00\x00\x00\x04\x00\x00\x00\x05\x00\x00\x00"
    "\x66\x69\x78\x65\x64\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x04\x00\x00\x00\x00\x00\xe0\x40\x02\x00\x00\x00\x68\x00\x00\x00\x04\x00\x00\x00"
    "\xae\xff\xff\xff\x30\x00\x00\x00\x01\x00\x00\x00\x10\x00\x00\x00\x04\x00\x00\x00\x01\x00"
    "\x00\x00\x77\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00\x18\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00"
    "\x40\x40\x00\x00\x80\x40\x00\x00\xa0\x40\x00\x00\xc0\x40\x00\x00\x0e\x00\x14\x00\x10\x00"
    "\x00\x00\x0c\x00\x08\x00\x04\x00\x0e\x00\x00\x00\x28\x00\x00\x00\x01\x00\x00\x00\x10\x00"
    "\x00\x00\x04\x00\x00\x00\x01\x00\x00\x00\x62\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x3f\x00\x00\x80\xbf",
    328);

/// The training graph of y = x w + b, with the gradients of w and b.
static const char *trainingGraph = R"(<ir_version: 8, opset_import: ["" : 15, "com.microsoft" : 1]>
  net (float[2, 3] x, int64[2] labels, float[3, 2] w, float[2] b,
       float[3, 2] w_grad.accumulation.buffer, float[2] b_grad.accumulation.buffer,
       bool[1] lazy_reset_grad)
      => (float loss, bool[1] w_grad.accumulation.out, bool[1] b_grad.accumulation.out) {
    y = Gemm(x, w, b)
    loss, log_prob = com.microsoft.SoftmaxCrossEntropyLossInternal<reduction = "mean">(y, labels)
    one = Constant<value = float {1.0}>()
    y_grad = com.microsoft.SoftmaxCrossEntropyLossInternalGrad<reduction = "mean">(one, log_prob, labels)
    w_grad = Gemm<transA = 1>(x, y_grad)
    b_grad = com.microsoft.ReduceSumTraining(y_grad)
    w_grad.accumulation.out = com.microsoft.InPlaceAccumulatorV2(w_grad.accumulation.buffer, w_grad, lazy_reset_grad)
    b_grad.accumulation.out = com.microsoft.InPlaceAccumulatorV2(b_grad.accumulation.buffer, b_grad, lazy_reset_grad)
  })";

class OrtArtifacts : public ::testing::Test {
protected:
  void SetUp() override {
    folder = fs::path(::testing::TempDir()) /
             ("pdc-" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::create_directories(folder);
    write("checkpoint", checkpointBytes);
    write("training_model.onnx", named(trainingGraph).SerializeAsString());
    write("optimizer_model.onnx", optimizer("AdamWOptimizer<adam_mode = 1, alpha = 0.8>"));
  }

  /// The text form has no dots in names.
  static onnx::ModelProto named(std::string text) {
    const std::string dotted = ".accumulation.";
    for (size_t at; (at = text.find(dotted)) != std::string::npos;)
      text.replace(at, dotted.size(), "_accumulation_");
    onnx::ModelProto proto = protoOf(text);
    auto rename = [](std::string &name) {
      if (size_t at = name.find("_accumulation_"); at != std::string::npos)
        name.replace(at, 14, ".accumulation.");
    };
    for (auto *values : {proto.mutable_graph()->mutable_input(), proto.mutable_graph()->mutable_output()})
      for (onnx::ValueInfoProto &value : *values)
        rename(*value.mutable_name());
    for (onnx::NodeProto &node : *proto.mutable_graph()->mutable_node())
      for (auto *names : {node.mutable_input(), node.mutable_output()})
        for (std::string &name : *names)
          rename(name);
    return proto;
  }

  static std::string optimizer(const std::string &call) {
    return protoOf(R"(<ir_version: 8, opset_import: ["" : 15, "com.microsoft" : 1]>
      step (float[1] rate, float[1] a) => (bool[1] done) { done = com.microsoft.)" +
                   call + "(rate, a) }")
        .SerializeAsString();
  }

  void write(const std::string &name, const std::string &bytes) const {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }

  Model model(const ArtifactFiles &files = {}) const {
    return readModel(folder / "training_model.onnx", files);
  }

  std::string refused(const ArtifactFiles &files = {}) const {
    try {
      model(files);
      return "";
    } catch (const Error &error) {
      return error.what();
    }
  }

  fs::path folder;
};

TEST_F(OrtArtifacts, checkpoint) {
  OrtCheckpoint checkpoint = readOrtCheckpoint(folder / "checkpoint");
  ASSERT_EQ(checkpoint.parameters.size(), 3u);
  EXPECT_EQ(checkpoint.trained, (std::set<std::string>{"b", "w"}));
  EXPECT_EQ(readTensor(checkpoint.parameters[0]).data, (std::vector<double>{0.5, -1}));
  EXPECT_EQ(checkpoint.parameters[1].type.toString(), "f32[3,2]");
  EXPECT_EQ(readTensor(checkpoint.parameters[1]).data, (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(readTensor(checkpoint.parameters[2]).data, std::vector<double>{7});
  EXPECT_EQ(checkpoint.learningRates, std::vector<double>{0.25});
  EXPECT_EQ(checkpoint.step, 0);
}

/// With two optimizer groups of these learning rates: a list and its tables behind the others, which
/// share the layout of the one that was there.
static std::string withGroups(float first, float second) {
  std::string bytes = checkpointBytes;
  auto append = [&](auto value) { bytes.append(reinterpret_cast<const char *>(&value), sizeof value); };
  const uint32_t placeOfList = 24, layout = 46, list = static_cast<uint32_t>(bytes.size());
  const uint32_t distance = list - placeOfList;
  std::memcpy(bytes.data() + placeOfList, &distance, sizeof distance);
  for (uint32_t value : {2U, 8U, 12U})
    append(value);
  for (float rate : {first, second}) {
    append(static_cast<uint32_t>(bytes.size()) - layout);
    append(rate);
  }
  return bytes;
}

TEST_F(OrtArtifacts, learningRates) {
  // FlatBuffers leaves zeros out.
  std::string bytes = checkpointBytes;
  bytes[bytes.find(std::string("\0\0\x80\x3e", 4)) - 6] = 0;
  write("checkpoint", bytes);
  EXPECT_TRUE(model().training->optimizer.starts_with("adamw,lr=0,")) << model().training->optimizer;
  write("checkpoint", withGroups(0.5, 0.5));
  EXPECT_TRUE(model().training->optimizer.starts_with("adamw,lr=0.5,")) << model().training->optimizer;
  write("checkpoint", withGroups(0.5, 0.25));
  EXPECT_NE(refused().find("its optimizer groups have learning rates 0.5 and 0.25, expected one"),
            std::string::npos);
  EXPECT_EQ(refused({.needsOptimizer = false}), "");
  write("checkpoint", withGroups(-1, -1));
  EXPECT_NE(
      refused().find(
          "checkpoint: its optimizer group has learning rate -1, expected at least 0 and finite; "
          "give --optimizer"),
      std::string::npos);
}

TEST_F(OrtArtifacts, filesOfOtherGraphs) {
  write("training_model.onnx", protoOf(std::string(header) + "net (float[2] x) => (float[2] y) { y = Relu(x) }").SerializeAsString());
  EXPECT_EQ(refused(), "");
  EXPECT_NE(refused({.checkpoint = "mine"}).find("--checkpoint mine: belongs to a training graph of ONNX Runtime"),
            std::string::npos);
  EXPECT_NE(refused({.optimizer = "mine.onnx"}).find("--optimizer mine.onnx: belongs to a training graph of ONNX Runtime"),
            std::string::npos);
}

TEST_F(OrtArtifacts, forwardGraphAndItsTraining) {
  Model found = model();
  EXPECT_EQ(found.training->origin, (folder / "optimizer_model.onnx").string());
  ASSERT_EQ(found.nodes.size(), 2u);
  EXPECT_EQ(found.nodes[0].op, "Gemm");
  EXPECT_EQ(found.nodes[1].op, "SoftmaxCrossEntropyLoss");
  EXPECT_EQ(found.inputs.size(), 2u);
  EXPECT_EQ(readTensor(found.initializers.at("w")).data, (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(toString(chooseLoss(found, "")), "cross_entropy of 'y' with labels 'labels'");
  EXPECT_EQ(found.training->parameters, (std::set<std::string>{"b", "w"}));
  EXPECT_EQ(chooseOptimizer(found, ""),
            "adamw,lr=0.25,weight_decay=0.01,beta1=0.8,beta2=0.999,epsilon=1e-08,scaled_epsilon=1,"
            "decay_last=1");
}

TEST_F(OrtArtifacts, otherOptimizers) {
  write("mine.onnx", optimizer("SGDOptimizerV2"));
  EXPECT_EQ(model({.optimizer = folder / "mine.onnx"}).training->optimizer, "sgd,lr=0.25");
  write("mine.onnx", optimizer("AdamWOptimizer<correct_bias = 0, weight_decay = 0.5>"));
  EXPECT_EQ(model({.optimizer = folder / "mine.onnx"}).training->optimizer,
            "adamw,lr=0.25,weight_decay=0.5,beta1=0.9,beta2=0.999,epsilon=1e-08,first_step=1e9");
  write("mine.onnx", optimizer("InplaceClipGradNorm<max_norm = 1.0>"));
  EXPECT_NE(refused({.optimizer = folder / "mine.onnx"}).find("com.microsoft::InplaceClipGradNorm): expected one"), std::string::npos);
  fs::remove(folder / "optimizer_model.onnx");
  EXPECT_NE(refused().find("optimizer_model.onnx: cannot be read as an ONNX model; give --optimizer"),
            std::string::npos);
  EXPECT_EQ(refused({.needsOptimizer = false}), "");
}

TEST_F(OrtArtifacts, statesOfEarlierSteps) {
  std::string bytes = checkpointBytes;
  bytes[52] = 4; // the group's layout has its step where its learning rate and its name are
  write("checkpoint", bytes);
  ASSERT_GT(readOrtCheckpoint(folder / "checkpoint").step, 0);
  EXPECT_NE(refused().find(
                ", but 'b' has 0 optimizer states, expected AdamW's 2; give --optimizer to begin "
                "its states anew"),
            std::string::npos);
  EXPECT_EQ(refused({.needsOptimizer = false}), "");
  write("optimizer_model.onnx",
        optimizer("SGDOptimizerV2")); // ONNX Runtime saves states that it never reads
  EXPECT_TRUE(model().training->optimizer.starts_with("sgd,lr="));
}

/// A sequence as releases before 1.15 wrote it: how many tensors, and each behind its length.
static std::string
sequence(const std::vector<std::pair<std::string, std::vector<float>>> &tensors) {
  std::string bytes(1, static_cast<char>(tensors.size()));
  for (const auto &[name, values] : tensors) {
    onnx::ModelProto holder;
    addInitializer(holder, name, {static_cast<int64_t>(values.size())}, values);
    const std::string tensor = holder.graph().initializer(0).SerializeAsString();
    bytes += static_cast<char>(tensor.size());
    bytes += tensor;
  }
  return bytes;
}

TEST_F(OrtArtifacts, foldersOfEarlierReleases) {
  fs::create_directories(folder / "old");
  write("old/paramtrain_tensors.pbseq", sequence({{"b", {0.5, -1}}, {"w", {1, 2, 3}}}));
  write("old/paramfrozen_tensors.pbseq", sequence({{"fixed", {7}}}));
  write("old/optim_group0_momentum0_tensors.pbseq", sequence({{"b", {1, 2}}, {"w", {3, 4, 5}}}));
  write("old/optim_group0_momentum1_tensors.pbseq", sequence({{"b", {6, 7}}, {"w", {8, 9, 10}}}));
  write("old/optim_group0_properties.pbseq",
        sequence({{"builtin.initial_learning_rate", {0.25}}, {"builtin.step", {3}}}));
  OrtCheckpoint old = readOrtCheckpoint(folder / "old");
  ASSERT_EQ(old.parameters.size(), 3u);
  EXPECT_EQ(old.trained, (std::set<std::string>{"b", "w"}));
  EXPECT_EQ(old.parameters[0].name, "fixed");
  EXPECT_EQ(readTensor(old.parameters[2]).data, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(old.learningRates, std::vector<double>{0.25});
  EXPECT_EQ(old.step, 3);
  EXPECT_EQ(readTensor(old.states.at("w").at(1)).data, (std::vector<double>{8, 9, 10}));
  write("old/paramtrain_tensors.pbseq", sequence({{"b", {0.5, -1}}}).substr(0, 9));
  EXPECT_NE(refused({.checkpoint = folder / "old"})
                .find("paramtrain_tensors.pbseq: not the 1 tensors that it says at its beginning"),
            std::string::npos);
  fs::create_directories(folder / "empty");
  EXPECT_NE(
      refused({.checkpoint = folder / "empty"}).find("no checkpoint of ONNX Runtime's training"),
      std::string::npos);
}

/// generate_artifacts puts a prefix before all names; ONNX Runtime's own test data have others.
TEST_F(OrtArtifacts, namesBesideTheModel) {
  auto move = [&](const char *from, const char *to) { fs::rename(folder / from, folder / to); };
  move("checkpoint", "checkpoint.ckpt");
  move("optimizer_model.onnx", "adamw.onnx");
  EXPECT_EQ(model().training->origin, (folder / "adamw.onnx").string());
  move("checkpoint.ckpt", "my_checkpoint");
  move("adamw.onnx", "my_optimizer_model.onnx");
  EXPECT_NE(refused().find("there is no file " + (folder / "checkpoint").string()),
            std::string::npos);
  move("training_model.onnx", "my_training_model.onnx");
  EXPECT_EQ(readModel(folder / "my_training_model.onnx", {}).training->origin,
            (folder / "my_optimizer_model.onnx").string());
}

TEST_F(OrtArtifacts, ownFormat) {
  write("training_model.onnx", std::string("\x20\0\0\0ORTM", 8) + checkpointBytes);
  EXPECT_EQ(refused(), "training_model.onnx: in ONNX Runtime's own format, expected ONNX's; give "
                       "the .onnx file that "
                       "it was made from");
}

/// Of the accumulator's first version, which has the same operands.
TEST_F(OrtArtifacts, firstAccumulator) {
  std::string text = trainingGraph;
  for (size_t at; (at = text.find("AccumulatorV2")) != std::string::npos;)
    text.replace(at, 13, "Accumulator");
  write("training_model.onnx", named(text).SerializeAsString());
  EXPECT_EQ(model().training->parameters, (std::set<std::string>{"b", "w"}));
}

TEST_F(OrtArtifacts, operatorsOfForwardGraphs) {
  std::string text = trainingGraph;
  text.replace(text.find("y = Gemm(x, w, b)"), 17, R"(
    m = com.microsoft.FusedMatMul<alpha = 0.5>(x, w)
    q = com.microsoft.QuickGelu<alpha = 1.5>(m)
    s = com.microsoft.Scale<scale_down = 1>(q, b)
    y = com.microsoft.FastGelu(s, b))");
  write("training_model.onnx", named(text).SerializeAsString());
  std::string operators;
  for (const ModelNode &node : model().nodes)
    operators += node.op + " ";
  EXPECT_EQ(operators, "Mul MatMul Mul Sigmoid Mul Div Add FastGelu SoftmaxCrossEntropyLoss ");
  text.replace(text.find("FusedMatMul<"), 12, "Mystery<");
  write("training_model.onnx", named(text).SerializeAsString());
  EXPECT_NE(refused().find("operators of domain 'com.microsoft' are not supported"),
            std::string::npos);
}

TEST_F(OrtArtifacts, refusals) {
  fs::remove(folder / "checkpoint");
  EXPECT_NE(refused().find("give --checkpoint FILE"), std::string::npos);
  write("checkpoint", "nothing of the kind");
  EXPECT_NE(refused().find("not a checkpoint of ONNX Runtime's training"), std::string::npos);
  std::string text = trainingGraph;
  for (size_t at; (at = text.find("b_grad.acc")) != std::string::npos;)
    text.replace(at, 6, "fixed_grad");
  write("checkpoint", checkpointBytes);
  write("training_model.onnx", named(text).SerializeAsString());
  EXPECT_NE(refused().find("the gradient of 'fixed' is accumulated"), std::string::npos);
}

/// What the graph says of its parameters, and what the checkpoint holds under their names.
TEST_F(OrtArtifacts, parametersAreWhatTheGraphDeclares) {
  auto declare = [&](const std::string &from, const std::string &to) {
    std::string text = trainingGraph;
    text.replace(text.find(from), from.size(), to);
    write("training_model.onnx", named(text).SerializeAsString());
    return refused();
  };
  const std::string path = (folder / "checkpoint").string();
  EXPECT_EQ(declare("float[3, 2] w,", "float[2, 3] w,"),
            "training_model.onnx: input 'w': expected f32[2,3], found f32[3,2] in " + path +
                "; give the checkpoint that was made with this graph (--checkpoint FILE)");
  EXPECT_NE(declare("float[2] b,", "float[2, 1] b,")
                .find("input 'b': expected f32[2,1], found f32[2] in "),
            std::string::npos);
  EXPECT_NE(
      declare("float[2] b,", "double[2] b,").find("input 'b': expected f64[2], found f32[2] in "),
      std::string::npos);
  EXPECT_EQ(declare("float[3, 2] w,", "float[rows, 2] w,"), "");
}

/// A checkpoint of this many tensors f32[] whose names are all this long and begin 4 bytes apart.
static std::string overlapping(uint32_t count, uint32_t length) {
  std::string bytes;
  auto shorts = [&](std::initializer_list<uint16_t> values) {
    for (uint16_t value : values)
      bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
  };
  auto words = [&](std::initializer_list<uint32_t> values) {
    for (uint32_t value : values)
      bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
  };
  const uint32_t tables = 60 + 4 * count, raw = tables + 16 * count, names = raw + 8;
  words({16, 0x4354444f});             // 0: the root's place, "ODTC"
  shorts({8, 8, 0, 4});                // 8: fields of the root
  words({8, 12});                      // 16: the root, its module
  shorts({6, 8, 4, 0});                // 24: fields of the module
  words({8, 20});                      // 32: the module, its trained tensors
  shorts({14, 16, 4, 0, 0, 8, 12, 0}); // 40: fields of a tensor
  words({count});                      // 56: the list of tensors
  for (uint32_t i = 0; i < count; ++i)
    words({tables + 16 * i - (60 + 4 * i)});
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t table = tables + 16 * i;
    words({table - 40, names + 4 * i - (table + 4), 1, raw - (table + 12)});
  }
  words({4, 0x3f800000});
  for (uint32_t i = 0; i < count; ++i)
    words({length});
  return bytes.append(length + 4, '\0');
}

/// What is read of a file is no more than it holds: 8000 names of 260 kB in 0.4 MB would take
/// minutes.
TEST_F(OrtArtifacts, overlappingNames) {
  write("checkpoint", overlapping(1, 9));
  EXPECT_EQ(readOrtCheckpoint(folder / "checkpoint").parameters.at(0).name, std::string(9, '\0'));
  write("checkpoint", overlapping(8000, 260000));
  EXPECT_EQ(refused(),
            "training_model.onnx: " + (folder / "checkpoint").string() +
                ": a list of 260000 bytes overlaps others, expected all lists together to be "
                "within the file's 452072 bytes; save the checkpoint again");
}

/// Whatever the bytes are: a checkpoint or one Error.
TEST_F(OrtArtifacts, brokenCheckpoints) {
  std::mt19937 random(1);
  int refusedOnes = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = checkpointBytes;
    if (i % 3 == 0)
      bytes.resize(random() % bytes.size());
    else
      for (int flips = 0; flips < 3; ++flips)
        bytes[8 + random() % (bytes.size() - 8)] = static_cast<char>(random());
    write("broken", bytes);
    try {
      readOrtCheckpoint(folder / "broken");
    } catch (const Error &) {
      ++refusedOnes;
    }
  }
  EXPECT_GT(refusedOnes, 1000);
}
