#include "compiler/onnx/OrtCheckpoint.h"
#include "compiler/onnx/Parameters.h"
#include "testsuite/onnx/OrtArtifactsText.h"

using namespace pdc;
using namespace pdc::testing;
namespace fs = std::filesystem;

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

/// generate_artifacts puts a prefix before all names; ONNX Runtime's own test data have others.
TEST_F(OrtArtifacts, namesBesideTheModel) {
  auto move = [&](const char *from, const char *to) { fs::rename(folder / from, folder / to); };
  move("checkpoint", "checkpoint.ckpt");
  move("optimizer_model.onnx", "adamw.onnx");
  EXPECT_EQ(model().training->origin, (folder / "adamw.onnx").string());
  move("checkpoint.ckpt", "my_checkpoint");
  move("adamw.onnx", "my_optimizer_model.onnx");
  EXPECT_NE(refused().find("there is no file or folder " + (folder / "checkpoint").string()),
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
  EXPECT_EQ(operators, "CastLike Mul MatMul CastLike Mul Sigmoid Mul CastLike Div Add FastGelu "
                       "SoftmaxCrossEntropyLoss ");
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
      declare("float[2] b,", "int64[2] b,").find("input 'b': expected i64[2], found f32[2] in "),
      std::string::npos);
  EXPECT_EQ(declare("float[2] b,", "double[2] b,"), "");
  EXPECT_EQ(declare("float[3, 2] w,", "float[rows, 2] w,"), "");
}
