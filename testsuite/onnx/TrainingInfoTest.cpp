#include "compiler/onnx/Parameters.h"
#include "testsuite/onnx/TrainingText.h"

#include <cmath>

using namespace pdc;
using namespace pdc::testing;

static ModelTraining trainingOf(const TrainingText &text) {
  Model model = read(text.proto());
  EXPECT_TRUE(model.training);
  return model.training.value_or(ModelTraining());
}

TEST(TrainingInfo, momentum) {
  Model model = read(TrainingText().proto());
  ASSERT_TRUE(model.training);
  EXPECT_EQ(model.training->loss, "loss");
  EXPECT_EQ(model.training->parameters, (std::set<std::string>{"b", "w"}));
  EXPECT_EQ(model.training->optimizer,
            "momentum,lr=0.125,momentum=0.9,dampening=0.25,weight_decay=0.01");
  // The update is pdc's own: nothing of it is left in the graph.
  ASSERT_EQ(model.nodes.size(), 3u);
  EXPECT_EQ(model.nodes[2].op, "SoftmaxCrossEntropyLoss");
  EXPECT_EQ(model.initializers.size(), 2u);
  EXPECT_EQ(model.inputs.size(), 2u);
  Loss loss = chooseLoss(model, "");
  EXPECT_EQ(toString(loss), "cross_entropy of 'scores' with labels 'labels'");
  EXPECT_EQ(chooseParameters(model, loss, {}), model.training->parameters);
  EXPECT_EQ(chooseOptimizer(model, ""), model.training->optimizer);
  EXPECT_EQ(chooseOptimizer(model, "adam"), "adam");
}

TEST(TrainingInfo, countsFromOne) {
  TrainingText text;
  onnx::ModelProto proto = text.proto();
  for (onnx::TensorProto &tensor : *proto.mutable_training_info(0)->mutable_algorithm()->mutable_initializer())
    if (tensor.name() == "count")
      tensor.set_raw_data(std::string("\1\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(read(proto).training->optimizer,
            "momentum,lr=0.125,momentum=0.9,dampening=0.25,first_step=2,weight_decay=0.01");
}

TEST(TrainingInfo, adamAndAdagrad) {
  TrainingText text;
  text.updates = R"(
    w_new, v_new, s_new = ai.onnx.preview.training.Adam<alpha = 0.8, norm_coefficient_post = 0.1>(
        rate, count, w, dw, v, v2)
    count_new = Add(one, count))";
  text.outputs = "float[4, 3] w_new, float[4, 3] v_new, float[4, 3] s_new, int64[1] count_new";
  text.bindings = {{"w", "w_new"}, {"v", "v_new"}, {"v2", "s_new"}, {"count", "count_new"}};
  EXPECT_EQ(trainingOf(text).optimizer,
            "adam,lr=0.125,beta1=0.8,beta2=0.999,epsilon=1e-06,scaled_epsilon=1,post_decay=0.1,"
            "first_step=0");
  EXPECT_EQ(trainingOf(text).parameters, std::set<std::string>{"w"});
  text.updates = R"(w_new, v_new = ai.onnx.preview.training.Adagrad<epsilon = 0.001>(rate, count, w, dw, v))";
  text.bindings = {{"w", "w_new"}, {"v", "v_new"}};
  text.outputs = "float[4, 3] w_new, float[4, 3] v_new";
  EXPECT_EQ(trainingOf(text).optimizer, "adagrad,lr=0.125,epsilon=0.001,lr_decay=0");
}

TEST(TrainingInfo, descentWithRateAsInput) {
  TrainingText text;
  text.inputs = "int64[2] labels, float speed";
  text.updates = "step = Mul(speed, dw)  w_new = Sub(w, step)";
  text.outputs = "float[4, 3] w_new";
  text.bindings = {{"w", "w_new"}};
  Model model = read(text.proto());
  EXPECT_EQ(model.training->optimizer, "sgd");
  EXPECT_EQ(model.inputs.size(), 2u);
}

TEST(TrainingInfo, onlySomeAreDecayed) {
  TrainingText text;
  text.updates = R"(
    w_new, v_new = ai.onnx.preview.training.Momentum<alpha = 0.9, beta = 1.0,
        norm_coefficient = 0.01, mode = "nesterov">(rate, count, w, dw, v)
    b_new, u_new = ai.onnx.preview.training.Momentum<alpha = 0.9, beta = 1.0,
        norm_coefficient = 0.0, mode = "nesterov">(rate, count, b, db, u))";
  text.outputs = "float[4, 3] w_new, float[3] b_new, float[4, 3] v_new, float[3] u_new";
  text.bindings.erase("count");
  Model model = read(text.proto());
  EXPECT_EQ(model.training->optimizer, "nesterov,lr=0.125,momentum=0.9,dampening=0,weight_decay=0.01");
  EXPECT_EQ(chooseGroups(model, "", {"b", "w"}, {{"x*"}, {}}).noDecay,
            (std::vector<std::string>{"b", "x*"}));
  EXPECT_EQ(chooseGroups(model, "sgd", {"b", "w"}, {}).noDecay, std::vector<std::string>{});
}

/// What the file says of rates stands before what the command line does: the last one counts.
TEST(TrainingInfo, someLearnAtAnotherRate) {
  TrainingText text;
  text.updates = R"(
    slow = Constant<value = float {0.0}>()
    b_step = Mul(slow, db)  b_new = Sub(b, b_step)
    fast = Constant<value = float {0.5}>()
    w_step = Mul(fast, dw)  w_new = Sub(w, w_step))";
  text.outputs = "float[4, 3] w_new, float[3] b_new";
  text.bindings = {{"w", "w_new"}, {"b", "b_new"}};
  Model model = read(text.proto());
  EXPECT_EQ(model.training->optimizer, "sgd,lr=0.5");
  EXPECT_EQ(chooseGroups(model, "", {"b", "w"}, {{}, {"w=2"}}).lrScale,
            (std::vector<std::string>{"b=0", "w=2"}));
  EXPECT_EQ(chooseGroups(model, "sgd", {"b", "w"}, {}).lrScale, std::vector<std::string>{});
}

TEST(TrainingInfo, initialization) {
  TrainingText text;
  text.initial = R"(first () => (float[4, 3] w_first, float[3] b_first) {
    w_first = RandomNormal<shape = [4, 3], mean = 2.0, scale = 0.5, seed = 7.0>()
    size = Constant<value = int64[1] {3}>()
    b_first = ConstantOfShape<value = float[1] {0.25}>(size) })";
  text.initialBindings = {{"w", "w_first"}, {"b", "b_first"}};
  onnx::ModelProto proto = text.proto();
  // Without elements: only the initialization says what they are.
  proto.mutable_graph()->mutable_initializer(0)->clear_float_data();
  Model model = read(proto);
  EXPECT_EQ(model.initializers.at("b").fill, 0.25);
  std::vector<double> drawn = readTensor(model.initializers.at("w")).data;
  ASSERT_EQ(drawn.size(), 12u);
  EXPECT_EQ(drawn, readTensor(read(proto).initializers.at("w")).data);
  text.initialBindings = {{"w", "b_first"}};
  expectRefusal(text, "the first value of 'w' is f32[3], expected f32[4,3]");
  text.initialBindings = {{"nothing", "b_first"}};
  expectRefusal(text, "names 'nothing', which is no initializer");
}

/// What is trained by the file's own words, or why it cannot be.
static std::string trained(const onnx::ModelProto &proto) {
  Model model = read(proto);
  try {
    std::string names;
    for (const std::string &name : chooseParameters(model, chooseLoss(model, ""), {}))
      names += name + " ";
    return names;
  } catch (const Error &error) {
    return error.what();
  }
}

TEST(TrainingInfo, onlyWhatTheLossReadsIsTrained) {
  EXPECT_EQ(trained(TrainingText().proto()), "b w ");
  TrainingText text;
  text.gradient = R"(dw, dv = ai.onnx.preview.training.Gradient<xs = ["w", "v2"], zs = ["x", "labels"], y = "loss">(w, v2, x, labels))";
  text.updates = "w_step = Mul(rate, dw)  w_new = Sub(w, w_step)  v_step = Mul(rate, dv)  v_new = Sub(v2, v_step)";
  text.outputs = "float[4, 3] w_new, float[4, 3] v_new";
  text.bindings = {{"w", "w_new"}, {"v2", "v_new"}};
  EXPECT_EQ(trained(text.proto()),
            "the file trains 'v2', which the loss does not read; name what is trained with --train PATTERN");
}

TEST(TrainingInfo, integersAreNotTrained) {
  TrainingText text;
  text.inputs = "";
  text.gradient = R"(d = ai.onnx.preview.training.Gradient<xs = ["labels"], zs = ["x"], y = "loss">(labels, x))";
  text.updates = "step = Mul(rate, d)  labels_new = Sub(labels, step)";
  text.outputs = "int64[2] labels_new";
  text.bindings = {{"labels", "labels_new"}};
  onnx::ModelProto proto = text.proto();
  addShape(proto, "labels", {0, 1});
  EXPECT_EQ(trained(proto), "the file trains 'labels', which is i64[2], expected floating point; name what "
                            "is trained with --train PATTERN");
}

/// Without updates nothing says what is trained, and the algorithm goes.
TEST(TrainingInfo, noUpdates) {
  TrainingText text;
  text.bindings.clear();
  Model model = read(text.proto());
  EXPECT_FALSE(model.training);
  EXPECT_EQ(model.nodes.size(), 2u);
  EXPECT_EQ(model.inputs.size(), 1u);
  EXPECT_EQ(model.initializers.size(), 2u);
}

TEST(TrainingInfo, drawsAndPlacesAreBounded) {
  TrainingText text;
  text.initial = "first () => (float[4, 3] w_first) { w_first = RandomNormal<shape = [1099511627776]>() }";
  text.initialBindings = {{"w", "w_first"}};
  expectRefusal(text, "(RandomNormal) of the initialization: draws f32[1099511627776], which has "
                      "4398046511104 bytes, expected at most 17179869184");
  onnx::ModelProto proto = text.proto();
  onnx::TensorProto &w = *proto.mutable_graph()->mutable_initializer(0);
  w.clear_float_data();
  while (w.dims_size() < 65)
    w.add_dims(1);
  EXPECT_NE(refusal(proto).find("initializer 'w': rank 65 exceeds 64"), std::string::npos);
}

/// Mean and deviation of many draws, within five deviations of what they should be.
TEST(TrainingInfo, draws) {
  for (bool normal : {true, false}) {
    Initializer tensor;
    tensor.type.shape = {100000};
    tensor.length = 400000;
    tensor.draw = Draw{normal, 1, 3, 5};
    double mean = 0, square = 0;
    for (double value : readTensor(tensor).data)
      mean += value / 1e5, square += value * value / 1e5;
    double deviation = normal ? 3 : 2 / std::sqrt(12.0);
    EXPECT_NEAR(mean, normal ? 1 : 2, 5 * deviation / std::sqrt(1e5));
    EXPECT_NEAR(std::sqrt(square - mean * mean), deviation, 0.03);
    Initializer rest = tensor;
    rest.offset = 4000, rest.length = 8;
    EXPECT_EQ(readBytes(rest), readBytes(tensor).substr(4000, 8));
  }
}
