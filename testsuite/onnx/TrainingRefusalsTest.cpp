#include "testsuite/onnx/TrainingText.h"

#include <cmath>

using namespace pdc;
using namespace pdc::testing;

/// An initialization of w by one operator, in which an attribute is set as given.
static std::string refusedDraw(const std::string &call, const std::string &name = "",
                               std::optional<float> value = {}) {
  TrainingText text;
  text.initial =
      "first () => (float[4, 3] w_first) { like = Constant<value = float[1] {0}>()  w_first = " +
      call + " }";
  text.initialBindings = {{"w", "w_first"}};
  onnx::ModelProto proto = text.proto();
  if (value)
    for (auto &attribute : *proto.mutable_training_info(0)
                                ->mutable_initialization()
                                ->mutable_node(1)
                                ->mutable_attribute())
      if (attribute.name() == name)
        attribute.set_f(*value);
  return refusal(proto);
}

TEST(TrainingRefusals, initializationsThatNothingCanDraw) {
  const std::string normal = "test.onnx: training_info: the node that makes 'w_first' "
                             "(RandomNormal) of the initialization: ";
  auto scale = [](std::optional<float> value) {
    return refusedDraw("RandomNormal<shape = [4, 3], scale = 1.0>()", "scale", value);
  };
  EXPECT_EQ(scale({}), "");
  EXPECT_EQ(scale(0), "");
  EXPECT_EQ(scale(-0.5F), normal + "attribute 'scale', the deviation, is -0.5, expected at least "
                                   "0; correct it in the file");
  EXPECT_EQ(scale(NAN),
            normal + "attribute 'scale' is nan, expected a finite number; correct it in the file");
  EXPECT_EQ(refusedDraw("RandomNormal<shape = [4, 3], mean = 1.0>()", "mean", -INFINITY),
            normal + "attribute 'mean' is -inf, expected a finite number; correct it in the file");
  EXPECT_EQ(refusedDraw("RandomNormal<shape = [4, 3], mean = 2>()"),
            normal + "attribute 'mean' is of type INT, expected FLOAT; correct it in the file");
  EXPECT_NE(
      refusedDraw("RandomNormal<shape = \"4\">()").find("'shape' is of type STRING, expected INTS"),
      std::string::npos);
  EXPECT_NE(refusedDraw("RandomNormal<shape = [4, 3], dtype = 1.0>()")
                .find("'dtype' is of type FLOAT, expected INT"),
            std::string::npos);
  EXPECT_NE(refusedDraw("RandomNormalLike<scale = 3>(like)")
                .find("(RandomNormalLike) of the initialization: attribute 'scale' is of type INT"),
            std::string::npos);
  EXPECT_EQ(refusedDraw("RandomUniform<shape = [4, 3], low = 2.0, high = 2.0>()"), "");
  EXPECT_EQ(refusedDraw("RandomUniform<shape = [4, 3], low = 3.0, high = -3.0>()"),
            "test.onnx: training_info: the node that makes 'w_first' (RandomUniform) of the "
            "initialization: "
            "draws from 3 to -3, expected attribute 'low' to be at most 'high'; exchange them");
  EXPECT_EQ(refusedDraw("ConstantOfShape(like)"),
            "test.onnx: training_info: the node that makes 'w_first' (ConstantOfShape) of the "
            "initialization: expected a shape of type i64[rank], found f32[1]");
  EXPECT_NE(refusedDraw("foreign.Constant<value = float[1] {0}>()")
                .find("(foreign::Constant) of the initialization makes the first value of 'w'; "
                      "supported are Constant, "),
            std::string::npos);
  EXPECT_NE(refusedDraw("RandomUniformLike<low = 2.0>(like)")
                .find("draws from 2 to 1, expected attribute 'low'"),
            std::string::npos);
}

TEST(TrainingRefusals, refusesWhatItCannotSay) {
  TrainingText text;
  text.updates = R"(
    small = Clip(dw)
    w_new, v_new = ai.onnx.preview.training.Momentum<alpha = 0.9, beta = 1.0,
        norm_coefficient = 0.0, mode = "standard">(rate, count, w, small, v))";
  text.outputs = "float[4, 3] w_new, float[4, 3] v_new";
  text.bindings = {{"w", "w_new"}, {"v", "v_new"}};
  expectRefusal(text, "updates 'w' by 'small', which the node that makes 'small' (Clip) makes");
  text = {};
  text.updates = "w_new = Mul(w, dw)";
  text.outputs = "float[4, 3] w_new";
  text.bindings = {{"w", "w_new"}};
  expectRefusal(text, "the node that makes 'w_new' (Mul) makes the next value of 'w'; expected Momentum");
  text = {};
  text.bindings.erase("v");
  expectRefusal(text, "the state 'v' must be an initializer with an update_binding");
  text = {};
  text.bindings.erase("count");
  expectRefusal(
      text, "the count of updates 'count' is not increased by 1 in each step; expected one i64");
  text = {};
  text.bindings["b"] = "w_new";
  expectRefusal(text, "'b' would get the next value of 'w'");
  text = {};
  text.bindings["scores"] = "w_new";
  expectRefusal(text, "names 'scores', which is no initializer");
  text = {};
  text.outputs = "float loss";
  expectRefusal(text, "is no output of the graph or the algorithm");
  text = {};
  text.gradient = R"(dw, db = ai.onnx.preview.training.Gradient<xs = ["w", "b"], y = "loss">(w, rate))";
  expectRefusal(text, "puts 'rate' in the place of 'b'");
  text.gradient = R"(dw, db = ai.onnx.preview.training.Gradient<xs = ["w", "h"], y = "loss">(w, h))";
  expectRefusal(text, "'h' is no initializer or input");
  text.gradient = "dw = Identity(w)  db = Identity(b)";
  expectRefusal(text, "its algorithm has no Gradient node");
}

/// w - NAME * gradient, where the algorithm has these inputs beside its labels.
static TrainingText descent(const std::string &name, const std::string &inputs = "") {
  TrainingText text;
  text.inputs += inputs;
  text.updates = "step = Mul(" + name + ", dw)  w_new = Sub(w, step)";
  text.outputs = "float[4, 3] w_new";
  text.bindings = {{"w", "w_new"}};
  return text;
}

/// An algorithm that has this update of w alone.
static TrainingText updatedBy(const std::string &updates,
                              const std::map<std::string, std::string> &bindings) {
  TrainingText text;
  text.updates = updates;
  text.outputs = "float loss";
  for (const auto &[variable, value] : bindings)
    text.outputs += ", float " + value;
  text.bindings = bindings;
  return text;
}

TEST(TrainingRefusals, learningRatesAndCounts) {
  const std::string where =
      "test.onnx: training_info: the node that makes 'w_new' (Sub): the learning rate ";
  const std::string expected =
      "; expected one floating-point number that the file holds, or an input that only "
      "updates read (pdc-run has --lr-schedule)";
  EXPECT_EQ(refusal(descent("speed", ", float[1] speed").proto()), "");
  EXPECT_EQ(refusal(descent("speed", ", float[4, 3] speed").proto()),
            where + "'speed' is f32[4,3]" + expected);
  EXPECT_EQ(refusal(descent("speed", ", int64 speed").proto()),
            where + "'speed' is i64[]" + expected);
  EXPECT_EQ(refusal(descent("labels").proto()), where + "'labels' is i64[2]" + expected);
  EXPECT_EQ(refusal(descent("x").proto()), where + "'x' is f32[2,4]" + expected);
  EXPECT_EQ(refusal(descent("one").proto()), where + "'one' is i64[1]" + expected);
  EXPECT_EQ(refusal(descent("w").proto()), where + "'w' is f32[4,3]" + expected);
  EXPECT_EQ(refusal(descent("dw").proto()), where + "'dw' is computed" + expected);
  TrainingText heated = descent("heat", ", float heat");
  heated.gradient = R"(hot = Mul(loss, heat)
    dw, db = ai.onnx.preview.training.Gradient<xs = ["w", "b"], zs = ["x", "labels"], y = "hot">(w, b, x, labels))";
  EXPECT_EQ(refusal(heated.proto()),
            where + "'heat' is an input that the forward graph reads" + expected);
  auto momentum = [](const std::string &operands) {
    return updatedBy(R"(w_new, v_new = ai.onnx.preview.training.Momentum<alpha = 0.9, beta = 1.0,
        norm_coefficient = 0.0, mode = "standard">)" +
                         operands,
                     {{"w", "w_new"}, {"v", "v_new"}});
  };
  EXPECT_EQ(refusal(momentum("(rate, count, w, dw, v)").proto()), "");
  expectRefusal(momentum("(count, rate, w, dw, v)"),
                "the learning rate 'count' is i64[1]; expected one floating-point");
  expectRefusal(momentum("(rate, rate, w, dw, v)"),
                "the count of updates 'rate' is f32[]; expected one i64, an input that "
                "only updates read or a state variable that each step increases by 1");
  expectRefusal(momentum("(rate, x, w, dw, v)"),
                "the count of updates 'x' is f32[2,4]; expected one i64");
  expectRefusal(momentum("(rate, , w, dw, v)"),
                "the count of updates '' is left out; expected one i64");
}

TEST(TrainingRefusals, contradictions) {
  const std::string of = "ai.onnx.preview.training.";
  expectRefusal(
      updatedBy("w_new, v_new, s_new = " + of +
                    "Adam(rate, count, w, dw, v, v)  count_new = Add(count, one)",
                {{"w", "w_new"}, {"v", "v_new"}, {"count", "count_new"}}),
      "'v' is state 2 of 'w', but also state 1 of 'w'; expected a tensor of its own for each");
  expectRefusal(updatedBy("w_new, u_new = " + of + "Adagrad(rate, count, w, dw, u)",
                          {{"w", "w_new"}, {"u", "u_new"}}),
                "the state 'u' is f32[3], expected f32[4,3] as 'w'");
  expectRefusal(
      updatedBy("w_new, v_new = " + of + "Adagrad(rate, count, w, dw, v)  w_two, v2_new = " + of +
                    "Adagrad(rate, count, w, dw, v2)",
                {{"w", "w_new"}, {"v", "v_new"}, {"v2", "v2_new"}}),
      "the node that makes 'w_two' (ai.onnx.preview.training::Adagrad): updates 'w', whose next "
      "value is "
      "'w_new' by its update_binding; expected one node that updates it, take the other out");
  TrainingText text = descent("rate");
  text.gradient =
      R"(dw, db = ai.onnx.preview.training.Gradient<xs = ["w", "w"], zs = ["x"], y = "loss">(w, w, x))";
  expectRefusal(text, "(ai.onnx.preview.training::Gradient): attributes 'xs' and 'zs' name 'w' "
                      "twice, expected each "
                      "value once; take it out");
  text.gradient =
      R"(dw, db = ai.onnx.preview.training.Gradient<xs = ["w"], zs = ["x"], y = "loss">(w, x))";
  expectRefusal(text, "expected at most an output for each of the 1 values in xs, found 2");
}

TEST(TrainingRefusals, rulesOfTheSpecification) {
  onnx::ModelProto proto = TrainingText().proto();
  proto.mutable_graph()->mutable_node(1)->set_input(1, "u");
  EXPECT_NE(refusal(proto).find("of the graph reads 'u' of training_info's algorithm"),
            std::string::npos);
  proto = TrainingText().proto();
  *proto.mutable_training_info(0)->mutable_algorithm()->add_initializer() =
      proto.graph().initializer(0);
  EXPECT_EQ(refusal(proto),
            "test.onnx: training_info: 'w' is an initializer of the algorithm, but also an "
            "initializer of the graph, which the algorithm reads by this name; leave it out of the "
            "algorithm, or "
            "rename it there");
  proto = TrainingText().proto();
  proto.mutable_training_info(0)->mutable_algorithm()->mutable_node(0)->set_output(0, "h");
  EXPECT_NE(
      refusal(proto).find(
          "'h' is an output of the node that makes 'h' (SoftmaxCrossEntropyLoss) of the algorithm, "
          "but also an output of the node that makes 'h' (MatMul) of the graph"),
      std::string::npos);
  proto = TrainingText().proto();
  *proto.add_training_info() = proto.training_info(0);
  EXPECT_NE(refusal(proto).find("is there twice"), std::string::npos);
  proto = TrainingText().proto();
  auto &initial = *proto.mutable_training_info(0)->mutable_initialization();
  initial.add_input()->set_name("given");
  EXPECT_NE(refusal(proto).find("the initialization has an input 'given'"), std::string::npos);
}
