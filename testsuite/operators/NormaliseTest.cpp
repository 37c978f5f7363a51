#include "compiler/operators/Operator.h"

#include <gtest/gtest.h>

namespace pdc::test {

/// A node before its opset is forgotten, with the constants that normalising adds.
struct Imported {
  ImportedNode node;
  std::vector<Tensor> constants;

  Imported(std::string op, Attributes attributes, size_t inputs = 1, size_t outputs = 1) {
    node.op = std::move(op);
    node.name = "n";
    node.attributes = std::move(attributes);
    for (size_t i = 0; i < inputs; ++i)
      node.inputs.push_back("in" + std::to_string(i));
    for (size_t i = 0; i < outputs; ++i)
      node.outputs.push_back("out" + std::to_string(i));
    node.addConstant = [this](Tensor value) {
      constants.push_back(std::move(value));
      return "constant" + std::to_string(constants.size() - 1);
    };
  }
};

using Names = std::vector<std::string>;
using Integers = std::vector<int64_t>;

TEST(Normalise, AttributesBecomeInputs) {
  Imported squeeze("Squeeze", {{"axes", Integers{1, 2}}});
  normaliseNode(squeeze.node, 11);
  EXPECT_EQ(squeeze.node.inputs, (Names{"in0", "constant0"}));
  EXPECT_EQ(squeeze.constants[0].toIntegers(), (Integers{1, 2}));
  EXPECT_FALSE(squeeze.node.attributes.has("axes"));

  Imported slice("Slice", {{"starts", Integers{1}}, {"ends", Integers{3}}});
  normaliseNode(slice.node, 9);
  EXPECT_EQ(slice.node.inputs, (Names{"in0", "constant0", "constant1"}));

  Imported pad("Pad", {{"pads", Integers{0, 1}}, {"value", 2.0}});
  normaliseNode(pad.node, 9);
  EXPECT_EQ(pad.node.inputs, (Names{"in0", "constant0", "constant1"}));
  EXPECT_EQ(pad.constants[1].data, std::vector<double>{2});

  Imported sum("ReduceSum", {{"axes", Integers{-1}}, {"keepdims", int64_t(0)}});
  normaliseNode(sum.node, 12);
  EXPECT_EQ(sum.node.inputs, (Names{"in0", "constant0"}));
}

/// Opsets 18 to 21.
TEST(Normalise, NewerForms) {
  Imported mean("ReduceMean", {{"axes", Integers{1}}});
  normaliseNode(mean.node, 13);
  EXPECT_EQ(mean.node.inputs, (Names{"in0", "constant0"}));
  Imported newer("ReduceMean", {}, 2);
  normaliseNode(newer.node, 18);
  EXPECT_EQ(newer.node.inputs, (Names{"in0", "in1"}));
  Imported cast("Cast", {{"to", int64_t(1)}, {"saturate", int64_t(0)}});
  normaliseNode(cast.node, 19);
  EXPECT_FALSE(cast.node.attributes.has("saturate"));
  Imported gelu("Gelu", {{"approximate", std::string("tanh")}});
  normaliseNode(gelu.node, 20);
  EXPECT_EQ(gelu.node.op, "FastGelu");
  Imported mirror("Pad", {{"mode", std::string("mirror")}}, 2);
  EXPECT_THROW(normaliseNode(mirror.node, 19), Error);
  Imported top("TopK", {{"k", int64_t(3)}});
  normaliseNode(top.node, 9);
  EXPECT_EQ(top.node.inputs, (Names{"in0", "constant0"}));
  EXPECT_EQ(top.constants[0].toIntegers(), (Integers{3}));
  Imported future("Relu", {});
  EXPECT_THROW(normaliseNode(future.node, 29), Error);
}

/// An output with an empty name is one that nobody reads.
TEST(Normalise, ReadersOfIndices) {
  Imported read("MaxPool", {}, 1, 2), unread("MaxPool", {}, 1, 2);
  unread.node.outputs[1] = "";
  normaliseNode(read.node, 13);
  normaliseNode(unread.node, 13);
  EXPECT_TRUE(read.node.attributes.has("indices"));
  EXPECT_FALSE(unread.node.attributes.has("indices"));
  EXPECT_EQ(unread.node.outputs, (Names{"out0", ""}));
}

TEST(Normalise, Clip) {
  Imported old("Clip", {{"max", 6.0}});
  normaliseNode(old.node, 7);
  EXPECT_EQ(old.node.op, "OneSidedClip");
  EXPECT_EQ(old.node.inputs, (Names{"in0", "", "constant0"}));
  EXPECT_EQ(old.constants[0].data[0], 6);

  Imported upper("Clip", {}, 3);
  upper.node.inputs[1].clear();
  normaliseNode(upper.node, 13);
  EXPECT_EQ(upper.node.op, "OneSidedClip");
  EXPECT_EQ(upper.node.inputs, (Names{"in0", "", "in2"}));

  Imported both("Clip", {}, 3);
  normaliseNode(both.node, 13);
  EXPECT_EQ(both.node.op, "Clip");
}

TEST(Normalise, BatchNormalization) {
  Imported training("BatchNormalization", {}, 5, 5);
  normaliseNode(training.node, 9);
  EXPECT_EQ(training.node.attributes.integer("training_mode", -1), 1);
  EXPECT_EQ(training.node.outputs.size(), 3u);
  EXPECT_EQ(training.node.attributes.number("momentum", 0), 0.9);

  Imported inference("BatchNormalization", {}, 5, 1);
  normaliseNode(inference.node, 9);
  EXPECT_EQ(inference.node.attributes.integer("training_mode", -1), 0);

  Imported newer("BatchNormalization", {{"training_mode", int64_t(1)}}, 5, 3);
  normaliseNode(newer.node, 15);
  EXPECT_EQ(newer.node.attributes.integer("training_mode", -1), 1);

  Imported activation("BatchNormalization", {{"spatial", int64_t(0)}}, 5);
  EXPECT_THROW(normaliseNode(activation.node, 7), Error);
}

TEST(Normalise, Dropout) {
  Imported old("Dropout", {{"ratio", 0.25}});
  normaliseNode(old.node, 10);
  EXPECT_EQ(old.node.inputs, (Names{"in0", "constant0", "constant1"}));
  EXPECT_EQ(old.constants[0].data[0], 0.25);
  EXPECT_EQ(old.constants[1].data[0], 1);
  EXPECT_FALSE(old.node.attributes.has("ratio"));
}

TEST(Normalise, Softmax) {
  Imported old("Softmax", {});
  normaliseNode(old.node, 11);
  EXPECT_EQ(old.node.attributes.integer("axis", 0), 1);
  EXPECT_EQ(old.node.attributes.integer("flatten", 0), 1);
  Imported newer("Softmax", {});
  normaliseNode(newer.node, 13);
  EXPECT_EQ(newer.node.attributes.integer("axis", 0), -1);
  EXPECT_FALSE(newer.node.attributes.has("flatten"));
}

TEST(Normalise, Constant) {
  Imported number("Constant", {{"value_float", 1.5}}, 0);
  normaliseNode(number.node, 13);
  EXPECT_EQ(number.node.attributes.tensor("value")->data, std::vector<double>{1.5});
  Imported text("Constant", {{"value_string", std::string("x")}}, 0);
  EXPECT_THROW(normaliseNode(text.node, 13), Error);
}

/// Outputs that gradients need are there even when the file has no name for them.
TEST(Normalise, SavedOutputs) {
  Imported pool("MaxPool", {}, 2), loss("SoftmaxCrossEntropyLoss", {}, 2), mean = loss;
  normaliseNode(pool.node, 13);
  EXPECT_EQ(pool.node.outputs, (Names{"out0", ""}));
  loss.node.attributes.set("reduction", std::string("sum"));
  normaliseNode(loss.node, 13);
  EXPECT_EQ(loss.node.outputs, (Names{"out0", "", ""}));
  normaliseNode(mean.node, 13);
  EXPECT_EQ(mean.node.outputs, (Names{"out0"}));
  mean.node.outputs = {"out0", "out1", "out2"};
  EXPECT_THROW(normaliseNode(mean.node, 13), Error);
}

static std::string refusal(std::string op, int opset) {
  Imported imported(std::move(op), {});
  try {
    normaliseNode(imported.node, opset);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

TEST(Normalise, RefusesByNameOperatorAndOpset) {
  std::string unknown = refusal("Unique", 13);
  EXPECT_TRUE(unknown.starts_with(
      "node 'n' (Unique, opset 13): this operator is not supported; "
      "compiler/operators/README.md lists"));
  EXPECT_EQ(unknown.find("ConvInputGrad"), std::string::npos);
  EXPECT_EQ(refusal("Conv", 29), "node 'n' (Conv, opset 29): supported from opset 7 to 28; export "
                                 "the model again with one of these");
  EXPECT_NE(refusal("ConvInputGrad", 13), "");
  EXPECT_NE(refusal("Erf", 8), "");
}

} // namespace pdc::test
