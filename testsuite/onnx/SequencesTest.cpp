#include "testsuite/onnx/ModelText.h"

using namespace pdc;
using namespace pdc::testing;

static std::string nodesOf(const onnx::ModelProto &proto) {
  std::string text;
  for (const ModelNode &node : read(proto).nodes) {
    text += node.op + "(";
    for (const std::string &input : node.inputs)
      text += input + " ";
    text += ") ";
  }
  return text;
}

/// What PyTorch writes of chunk and split without its optimizer.
static onnx::ModelProto splitInto(const std::string &body) {
  return protoOf(std::string(header) + "net (float[2, 5] x) => (float[2, 2] y) {" + R"(
    size = Constant<value_int = 2>()
    sizes = Constant<value_ints = [2, 2, 1]>()
    zero = Constant<value_int = 0>()
    one = Constant<value = int64 {1}>()
    last = Constant<value_int = -2>()
    )" + body + "}");
}

TEST(Sequences, partsOfSplit) {
  const char *parts = R"(
    s = SplitToSequence<axis = 1>(x, sizes)
    a = SequenceAt(s, zero)
    b = SequenceAt(s, last)
    y = Add(a, b))";
  const std::string split =
      "Split(x s/constant ) Identity(s/element ) Identity(s/element_2 ) Add(a b ) ";
  EXPECT_EQ(nodesOf(splitInto(parts)), split);
  Model model = read(splitInto(parts));
  EXPECT_EQ(readTensor(model.initializers.at("s/constant")).data, (std::vector<double>{2, 2, 1}));
  std::string equal = parts;
  equal.replace(equal.find("sizes"), 5, "size");
  model = read(splitInto(equal));
  EXPECT_EQ(nodesOf(splitInto(equal)), split);
  EXPECT_EQ(readTensor(model.initializers.at("s/constant")).data, (std::vector<double>{2, 2, 1}))
      << "the last is smaller";
}

/// Where the file does not say how long the dimension is.
TEST(Sequences, slicesOfUnknownLength) {
  const char *parts = R"(
    r = Relu(x)
    s = SplitToSequence<axis = 1>(r, size)
    y = SequenceAt(s, one))";
  EXPECT_EQ(nodesOf(splitInto(parts)),
            "Relu(x ) Slice(r y/constant y/constant_2 y/constant_3 ) Identity(y/element ) ");
  Model model = read(splitInto(parts));
  EXPECT_EQ(readTensor(model.initializers.at("y/constant")).data, std::vector<double>{2});
  EXPECT_EQ(readTensor(model.initializers.at("y/constant_2")).data, std::vector<double>{4});
  std::string text = parts;
  text.replace(text.find("s, one"), 6, "s, last");
  EXPECT_NE(refusal(splitInto(text))
                .find("(SequenceAt): reads element -2 of a sequence of unknown length"),
            std::string::npos)
      << refusal(splitInto(text));
}

/// Of more parts than are written out the one that is read is sliced.
TEST(Sequences, manyParts) {
  auto many = [](const std::string &index) {
    return protoOf(std::string(header) + R"(
      net (float[2, 134217728] x) => (float[2, 1] y) {
        at = Constant<value_int = )" +
                   index + R"(>()
        s = SplitToSequence<axis = 1>(x)
        y = SequenceAt(s, at) })");
  };
  for (const char *index : {"134217727", "-1"}) {
    Model model = read(many(index));
    EXPECT_EQ(nodesOf(many(index)),
              "Slice(x y/constant y/constant_2 y/constant_3 ) Identity(y/element ) ");
    EXPECT_EQ(readTensor(model.initializers.at("y/constant")).data, std::vector<double>{134217727});
  }
  EXPECT_NE(refusal(many("134217728")).find("reads element 134217728 of 134217728"),
            std::string::npos)
      << refusal(many("134217728"));
}

TEST(Sequences, constantWithoutOutput) {
  onnx::ModelProto proto = splitInto(R"(
    s = SplitToSequence<axis = 1>(x, sizes)
    y = SequenceAt(s, zero))");
  onnx::NodeProto &constant = *proto.mutable_graph()->add_node();
  constant.set_op_type("Constant");
  onnx::AttributeProto &value = *constant.add_attribute();
  value.set_name("value_int");
  value.set_type(onnx::AttributeProto::INT);
  value.set_i(3);
  const std::string found = refusal(proto);
  EXPECT_TRUE(found.empty() || found.find("Constant") != std::string::npos) << found;
}

TEST(Sequences, singleElementsAndJoins) {
  EXPECT_EQ(nodesOf(splitInto(R"(
    s = SplitToSequence<axis = 0, keepdims = 0>(x)
    row = SequenceAt(s, one)
    y = Relu(row))")),
            "Split(x s/constant ) Squeeze(s/element_2 row/constant ) Relu(row ) ");
  EXPECT_EQ(nodesOf(splitInto(R"(
    s = SequenceConstruct(x, x)
    y = ConcatFromSequence<axis = 0, new_axis = 1>(s))")),
            "Unsqueeze(x y/constant ) Unsqueeze(x y/constant_2 ) Concat(y/element y/element_2 ) ");
}

/// Whole numbers that no sequence is split or read by may be any number of them.
TEST(Sequences, othersStayUnread) {
  onnx::ModelProto proto = splitInto("t = Constant<value = int64[1] {0}>()  y = Gather(x, t)");
  for (onnx::NodeProto &node : *proto.mutable_graph()->mutable_node())
    if (node.output(0) == "t") {
      onnx::TensorProto &table = *node.mutable_attribute(0)->mutable_t();
      table.set_dims(0, (int64_t(1) << 22) + 1);
      table.mutable_int64_data()->Resize((1 << 22) + 1, 0);
    }
  EXPECT_EQ(nodesOf(proto), "Gather(x t ) ");
}

TEST(Sequences, grownAndShrunk) {
  EXPECT_EQ(nodesOf(splitInto(R"(
    none = SequenceEmpty()
    a = Relu(x)
    b = Neg(x)
    c = Abs(x)
    first = SequenceInsert(none, a)
    second = SequenceInsert(first, b)
    third = SequenceInsert(second, c, one)
    fewer = SequenceErase(third, zero)
    y = ConcatFromSequence<axis = 1>(fewer))")),
            "Neg(x ) Abs(x ) Concat(c b ) ");
  EXPECT_EQ(nodesOf(splitInto(R"(
    parts = SplitToSequence<axis = 0, keepdims = 0>(x)
    more = SequenceInsert(parts, x)
    fewer = SequenceErase(more)
    count = SequenceLength(fewer)
    y = Expand(x, count))")),
            "Expand(x count ) ")
      << "what nobody reads is left out";
}

/// What cannot be read matters only where it is needed.
TEST(Sequences, unneededElementsAreNotRead) {
  auto text = [](const std::string &condition) {
    return R"(
      none = SequenceEmpty()
      two = Constant<value_int = 2>()
      is_there = )" +
           condition + R"((one, two)
      y = If<then_branch = a () => (float[2, 5] r) { r = SequenceAt(none, one) },
             else_branch = b () => (float[2, 5] r) { r = Neg(x) }>(is_there))";
  };
  EXPECT_EQ(nodesOf(splitInto(text("Greater"))), "Neg(x ) Identity(r_2 ) ");
  EXPECT_NE(refusal(splitInto(text("Less"))).find("reads element 1 of 0"), std::string::npos)
      << refusal(splitInto(text("Less")));
}

/// What iterations append, at places that are computed.
TEST(Sequences, appendedInLoops) {
  const char *loop = R"(
    none = SequenceEmpty()
    three = Constant<value = int64 {3}>()
    true = Constant<value = bool {1}>()
    h, states = Loop(three, true, x, none) <body = step
      (int64 i, bool goes_on, before, list) => (again, after, longer) {
        after = Tanh(before)
        longer = SequenceInsert(list, after)
        again = Identity(goes_on)
      }>
    count = SequenceLength(states)
    at = Sub(count, one)
    end = SequenceAt(states, at)
    all = ConcatFromSequence<axis = 0, new_axis = 1>(states)
    y = Add(all, end))";
  EXPECT_EQ(nodesOf(splitInto(loop)),
            "Tanh(x ) Tanh(after_2 ) Tanh(after_3 ) Identity(after_4 ) "
            "Unsqueeze(after_2 all/constant ) Unsqueeze(after_3 all/constant_2 ) "
            "Unsqueeze(after_4 all/constant_3 ) "
            "Concat(all/element all/element_2 all/element_3 ) Add(all end ) ");
}

TEST(Sequences, refusals) {
  std::string none = refusal(splitInto("s = SequenceEmpty()  y = ConcatFromSequence<axis = 0>(s)"));
  EXPECT_NE(none.find("(ConcatFromSequence): joins a sequence without elements"), std::string::npos)
      << none;
  none = refusal(splitInto("s = SequenceEmpty()  t = SequenceErase(s)  y = SequenceAt(t, zero)"));
  EXPECT_NE(none.find("(SequenceErase): takes an element out of an empty sequence"),
            std::string::npos)
      << none;
  std::string beyond = refusal(splitInto("s = SequenceConstruct(x, x)  y = SequenceAt(s, size)"));
  EXPECT_NE(beyond.find("(SequenceAt): reads element 2 of 2"), std::string::npos) << beyond;
  std::string computed =
      refusal(splitInto("s = SequenceConstruct(x)  m = ReduceMax<keepdims = 0>(x)  "
                        "i = Cast<to = 7>(m)  y = SequenceAt(s, i)"));
  beyond = refusal(splitInto("s = SequenceConstruct(x)  i = Size(x)  y = SequenceAt(s, i)"));
  EXPECT_NE(beyond.find("(SequenceAt): reads element 10 of 1"), std::string::npos) << beyond;
  EXPECT_NE(computed.find("SequenceAt, opset 17): this operator is not supported"),
            std::string::npos)
      << computed;
}
