#include "compiler/onnx/Conditions.h"
#include "testsuite/onnx/ModelText.h"

#include <fstream>

using namespace pdc;
using namespace pdc::testing;

static std::string operatorsRead(const Model &model) {
  std::string text;
  for (const ModelNode &node : model.nodes)
    text += node.op + " ";
  return text;
}

static bool says(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// A squeeze as PyTorch writes it where it does not know whether there is something to squeeze.
static onnx::ModelProto squeezeOf(const std::string &input, const std::string &axis) {
  return protoOf(std::string(header) + "net (" + input + ") => (float[N] y) {" + R"(
    pooled = AveragePool<kernel_shape = [1, 1]>(x)
    shape = Shape(pooled)
    axis = Constant<value_ints = [)" +
                 axis + R"(]>()
    one = Constant<value_ints = [1]>()
    size = Gather(shape, axis)
    condition = Equal(size, one)
    squeezed = If<
      then_branch = then () => (float[M] t) { axes = Constant<value_ints = [)" +
                 axis + R"(]>()  t = Squeeze(pooled, axes) },
      else_branch = otherwise () => (float[M] t) { t = Identity(pooled) }>(condition)
    y = Relu(squeezed)
  })");
}

TEST(Conditions, shapesDecide) {
  EXPECT_EQ(operatorsRead(read(squeezeOf("float[2, 1, 4, 4] x", "1"))),
            "AveragePool Squeeze Identity Relu ");
  EXPECT_EQ(operatorsRead(read(squeezeOf("float[2, 3, 4, 4] x", "1"))),
            "AveragePool Identity Identity Relu ");
  EXPECT_EQ(read(squeezeOf("float[2, 3, 4, 4] x", "1")).conditions, nullptr);
}

/// Keras trains no number; of others one may be trained, and then decide otherwise.
TEST(Conditions, floatingPointNumbersOfKeras) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(net (float[2] x) => (float[N] y) {
    condition = Less(step, most)
    y = If<then_branch = then () => (float[M] t) { t = Relu(x) },
           else_branch = otherwise () => (float[M] t) { t = Tanh(x) }>(condition) })");
  addInitializer(proto, "step", {}, {0});
  addInitializer(proto, "most", {}, {7});
  EXPECT_THROW(read(proto), Error);
  proto.set_producer_name("tf2onnx");
  EXPECT_TRUE(says(operatorsRead(read(proto)), "Relu"));
}

/// A number that is given before decides; one that comes later must not decide otherwise.
TEST(Conditions, namedDimensions) {
  onnx::ModelProto proto = squeezeOf("float[batch, 3, height, 4] x", "2");
  const std::string path = std::string(::testing::TempDir()) + "/named.onnx";
  std::ofstream(path, std::ios::binary) << proto.SerializeAsString();
  EXPECT_TRUE(says(operatorsRead(readModel(path, {}, {{"height", 1}})), "Squeeze"));
  EXPECT_FALSE(says(operatorsRead(readModel(path, {}, {{"height", 8}})), "Squeeze"));

  Model model = readModel(path);
  EXPECT_FALSE(says(operatorsRead(model), "Squeeze"));
  EXPECT_NO_THROW(checkConditions(model, Binding(model, 4, {{"height", 8}})));
  try {
    checkConditions(model, Binding(model, 4, {{"height", 1}}));
    FAIL() << "the other branch is right";
  } catch (const Error &error) {
    EXPECT_TRUE(says(error.what(), "its condition 'condition' depends on a dimension that has a "
                                   "name; write its number into the file, or give it with --bind"))
        << error.what();
  }
}

/// The inner condition reads what the outer If makes; names of a branch are its own, and so are
/// its initializers. What the branch that is not taken cannot do is not asked.
static onnx::ModelProto nested() {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(net (float[2, 3] x) => (float[2, 3] y) {
    size = Size(x)
    six = Constant<value_int = 6>()
    outer = Equal(size, six)
    half = If<
      then_branch = a () => (float[2, 3] r) {
        v = Relu(x)
        inner = Less(size, six)
        r = If<then_branch = c () => (float[2, 3] s) { s = Loop(v) },
               else_branch = d () => (float[2, 3] s) { s = Mul(v, scale) }>(inner)
      },
      else_branch = b () => (float[2, 3] r) { v = NonZero(x)  r = Neg(v) }>(outer)
    rows = Shape(half)
    two = Constant<value_ints = [2, 3]>()
    same = Equal(rows, two)
    all = Cast<to = 6>(same)
    least = ReduceMin<keepdims = 0>(all)
    last = Cast<to = 9>(least)
    y = If<then_branch = e () => (float[2, 3] v) { v = Tanh(half) },
           else_branch = f () => (float[2, 3] v) { v = Sign(half) }>(last)
  })");
  onnx::GraphProto &then =
      *proto.mutable_graph()->mutable_node(3)->mutable_attribute(0)->mutable_g();
  onnx::GraphProto &scaled = *then.mutable_node(2)->mutable_attribute(1)->mutable_g();
  onnx::TensorProto &scale = *scaled.add_initializer();
  scale.set_name("scale");
  scale.set_data_type(onnx::TensorProto::FLOAT);
  scale.add_dims(1);
  scale.add_float_data(3);
  return proto;
}

TEST(Conditions, nestedAndOneAfterTheOther) {
  Model model = read(nested());
  EXPECT_EQ(operatorsRead(model), "Relu Mul Identity Identity Tanh Identity ");
  const Initializer &scale = model.initializers.at("scale");
  EXPECT_EQ(model.nodes[1].inputs[1], "scale");
  EXPECT_EQ(readTensor(scale).data, std::vector<double>{3});
  EXPECT_FALSE(scale.literal) << "an initializer of a branch is one of the graph";
}

/// What the branch that is not taken is made of need not be known at all.
TEST(Conditions, operatorsOfOtherDomains) {
  onnx::ModelProto proto = squeezeOf("float[2, 1, 4, 4] x", "1");
  onnx::GraphProto &otherwise =
      *proto.mutable_graph()->mutable_node(6)->mutable_attribute(1)->mutable_g();
  otherwise.mutable_node(0)->set_domain("vendor");
  otherwise.mutable_node(0)->set_op_type("Mystery");
  EXPECT_EQ(operatorsRead(read(proto)), "AveragePool Squeeze Identity Relu ");
  proto.mutable_graph()->mutable_node(0)->set_domain("vendor");
  EXPECT_TRUE(says(refusal(proto), "the model imports no operator set of domain 'vendor'"))
      << refusal(proto);
}

/// A function's branches read its inputs and attributes of its call.
TEST(Conditions, inFunctions) {
  onnx::ModelProto proto = protoOf(R"(<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
    net (float[2, 3] x) => (float[2, 3] y) { y = local.f<slope = 0.5>(x) }
    <domain: "local", opset_import: ["" : 17]>
    f <slope> (v) => (w) {
      n = Size(v)
      none = Constant<value_int = 0>()
      is_empty = Equal(n, none)
      w = If<then_branch = a () => (float[2, 3] r) { r = Identity(v) },
             else_branch = b () => (float[2, 3] r) { r = LeakyRelu<alpha : float = @slope>(v) }>(is_empty)
    })");
  Model model = read(proto);
  EXPECT_EQ(operatorsRead(model), "LeakyRelu Identity ");
  EXPECT_EQ(model.nodes[0].inputs[0], "x");
  EXPECT_EQ(model.nodes[0].attributes.number("alpha", 0), 0.5);
}

TEST(Conditions, refusals) {
  const std::string found = refusal(protoOf(std::string(header) + R"(
    net (float[2, 3] x, bool flag) => (float[2, 3] y) {
      y = If<then_branch = a () => (float[2, 3] r) { r = Relu(x) },
             else_branch = b () => (float[2, 3] r) { r = Neg(x) }>(flag)
    })"));
  EXPECT_TRUE(says(found,
                   "(If): its condition 'flag' is not decided by shapes and constants; export "
                   "the model with the branch that training takes"))
      << found;
  const std::string computed = refusal(protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, 3] y) {
      sum = NonZero(x)
      flag = Cast<to = 9>(sum)
      y = If<then_branch = a () => (float[2, 3] r) { r = Relu(x) },
             else_branch = b () => (float[2, 3] r) { r = Neg(x) }>(flag)
    })"));
  EXPECT_TRUE(says(computed, "its condition 'flag' is not decided by shapes and constants ("))
      << computed;
  onnx::ModelProto uneven = squeezeOf("float[2, 1, 4, 4] x", "1");
  uneven.mutable_graph()->mutable_node(6)->mutable_attribute(1)->mutable_g()->clear_output();
  EXPECT_TRUE(
      says(refusal(uneven), "its else_branch has 0 inputs and 0 outputs, expected none and 1"))
      << refusal(uneven);
}

/// A Loop of a body with a carried value and a stacked one.
static onnx::ModelProto loopOf(const std::string &input, const std::string &before,
                               const std::string &body, const std::string &operands) {
  return protoOf(std::string(header) + "net (" + input + ") => (float[N] y) {" + before + R"(
    last, rows = Loop<body = b (int64 i, bool on, float[2] v) => (bool more, float[2] w, float[2] r) {)" +
                 body + "}>(" + operands + R"()
    sum = ReduceSum<keepdims = 0>(rows)
    y = Add(last, sum)
  })");
}

static onnx::ModelProto withoutCount(onnx::ModelProto proto) {
  for (onnx::NodeProto &node : *proto.mutable_graph()->mutable_node())
    if (node.op_type() == "Loop")
      node.set_input(0, "");
  return proto;
}

static const char *five = "five = Constant<value_int = 5>()";
static const char *plain = "w = Relu(v)  r = Neg(v)  more = Identity(on)";

/// Each iteration reads what the one before made, and the number that it has.
TEST(Loops, areWrittenOut) {
  Model model = read(
      loopOf("float[2] x", "two = Constant<value_int = 2>()",
             "n = Cast<to = 1>(i)  w = Mul(v, n)  r = Add(w, x)  more = Identity(on)", "two, , x"));
  EXPECT_EQ(operatorsRead(model), "Cast Mul Add Cast Mul Add Identity Unsqueeze Unsqueeze Concat "
                                  "ReduceSum Add ");
  const auto &nodes = model.nodes;
  EXPECT_EQ(nodes[1].inputs[0], "x");
  EXPECT_EQ(nodes[4].inputs[0], nodes[1].outputs[0]);
  EXPECT_EQ(readTensor(model.initializers.at(nodes[0].inputs[0])).data, std::vector<double>{0});
  EXPECT_EQ(readTensor(model.initializers.at(nodes[3].inputs[0])).data, std::vector<double>{1});
  EXPECT_EQ(nodes[9].inputs, (std::vector<std::string>{nodes[7].outputs[0], nodes[8].outputs[0]}));
}

/// The body's own condition ends it too; and what stands in it is decided in each iteration.
TEST(Loops, endAndDecide) {
  const char *body = R"(
    one = Constant<value_int = 1>()
    more = Less(i, one)
    w = If<then_branch = t () => (float[2] s) { s = Tanh(v) },
           else_branch = e () => (float[2] s) { s = Loop<body = c (int64 j, bool k, float[2] a) => (bool l, float[2] z) {
             z = Sin(a)  l = Identity(k) }>(five, k0, v) }>(more)
    r = Neg(w))";
  const std::string before = std::string(five) + " k0 = Equal(five, five)";
  const onnx::ModelProto proto = loopOf("float[2] x", before, body, "five, k0, x");
  for (const onnx::ModelProto &form : {proto, withoutCount(proto)})
    EXPECT_EQ(operatorsRead(read(form)),
              "Tanh Identity Neg Sin Sin Sin Sin Sin Identity Identity Neg Identity Unsqueeze "
              "Unsqueeze Concat ReduceSum Add ");
}

/// As PyTorch's exporter writes a bag of embeddings; their number depends on a dimension.
static onnx::ModelProto bagsOf(const std::string &reduced, const std::string &axis = "0") {
  return protoOf(std::string(header) +
                 R"(net (int64[batch, 3] ids, float[9, 4] table) => (float[batch, 4] y) {
    one = Constant<value_int = 1>()
    on = Cast<to = 9>(one)
    flat = Constant<value_ints = [-1]>()
    indices = Reshape(ids, flat)
    none = Constant<value_int = 0>()
    number = Size(indices)
    three = Constant<value_int = 3>()
    offsets = Range(none, number, three)
    zero = Constant<value_ints = [0]>()
    last = Unsqueeze(number, zero)
    starts = Concat<axis = 0>(offsets, last)
    from = Constant<value_ints = [1]>()
    end = Constant<value_ints = [9223372036854775807]>()
    ends = Slice(starts, from, end, zero)
    sizes = Shape(ends)
    count = Gather(sizes, none)
    y = Loop<body = b (int64 i, bool more) => (bool next, float[4] row) {
      axis = Constant<value_ints = [)" +
                 axis + R"(]>()
      s = Gather(starts, i)
      e = Gather(ends, i)
      s1 = Unsqueeze(s, axis)
      e1 = Unsqueeze(e, axis)
      chosen = Slice(indices, s1, e1, zero)
      found = Gather(table, chosen)
      )" + reduced +
                 R"(
      next = Cast<to = 9>(on)
    }>(count, on)
  })");
}

TEST(Loops, bagsAreKept) {
  Model model = read(bagsOf("row = ReduceMean<axes = [0], keepdims = 0>(found)"));
  const ModelNode &bag = model.nodes.back();
  EXPECT_EQ(bag.op, "pdc.EmbeddingBag");
  EXPECT_EQ(bag.inputs, (std::vector<std::string>{"table", "indices", "starts", "ends", "count"}));
  EXPECT_EQ(bag.attributes.string("mode", ""), "mean");
  EXPECT_NO_THROW(checkConditions(model, Binding(model, 4, {})));
}

/// What only looks like one is a Loop like any other, whose end the dimension decides.
TEST(Loops, otherBodiesAreNoBags) {
  for (const char *reduced :
       {"row = ReduceSum<keepdims = 0>(found)", "row = ReduceProd<axes = [0], keepdims = 0>(found)",
        "row = ReduceMean<axes = [0]>(found)",
        "t = Exp(found)  row = ReduceMean<axes = [0], keepdims = 0>(t)"}) {
    Model model = read(bagsOf(reduced));
    EXPECT_EQ(operatorsRead(model).find("EmbeddingBag"), std::string::npos) << reduced;
    EXPECT_THROW(checkConditions(model, Binding(model, 4, {})), Error);
  }
}

/// What PyTorch's newer exporter writes of EmbeddingBag, once `changed` reads `instead`.
static onnx::ModelProto appendedBags(const std::string &changed = "",
                                     const std::string &instead = "") {
  std::string text = R"(
    net (float[n, 4] rows, int64[bags] begun) => (float[bags, 4] y) {
    flat = Constant<value_ints = [-1]>()
    zeros = Constant<value_ints = [0]>()
    one = Constant<value_int = 1>()
    two = Constant<value_int = 2>()
    first = Constant<value_int = 0>()
    size = Shape<end = 1>(rows)
    offsets = Concat<axis = 0>(begun, size)
    count = Size(begun)
    goes_on = Less(first, count)
    none = SequenceEmpty()
    all, counted = Loop(endless, goes_on, none, first) <body = bag
      (int64 iteration, bool before, list, int64 i) => (again, longer, next) {
        at = Reshape(i, flat)
        begin = Add(at, one)
        start = Slice(offsets, at, begin)
        behind = Add(at, two)
        end = Slice(offsets, begin, behind)
        empty = Equal(start, end)
        appended = If(empty) <then_branch = a () => (nothing) {
          filler = Constant<value_floats = [0.0]>()
          width = Constant<value_ints = [1, 4]>()
          nothing = Expand(filler, width)
        }, else_branch = b () => (row) {
          last = Sub(count, one)
          is_last = Equal(i, last)
          found = If(is_last) <then_branch = c () => (rest) { rest = Slice(rows, start, size) },
                               else_branch = d () => (some) { some = Slice(rows, start, end) }>
          row = ReduceMax(found, zeros)
        }>
        longer = SequenceInsert(list, appended)
        next = Add(i, one)
        again = Less(next, count)
      }>
    y = ConcatFromSequence<axis = 0>(all) })";
  if (const size_t at = text.find(changed); !changed.empty() && at != std::string::npos)
    text.replace(at, changed.size(), instead);
  onnx::ModelProto proto = protoOf("<ir_version: 8, opset_import: [\"\" : 18]>\n" + text);
  for (onnx::NodeProto &node : *proto.mutable_graph()->mutable_node())
    if (node.op_type() == "Loop")
      node.set_input(0, "");
  return proto;
}

TEST(Loops, appendedBagsAreKept) {
  Model model = read(appendedBags());
  const ModelNode &bag = model.nodes.at(model.nodes.size() - 2);
  EXPECT_EQ(bag.op, "pdc.EmbeddingBag");
  EXPECT_EQ(bag.inputs.at(0), "rows");
  EXPECT_EQ(bag.inputs.at(2), "offsets");
  // The last bag ends where the rows do, whatever the last of the offsets is.
  EXPECT_TRUE(says(operatorsRead(model), "Equal Where Slice Concat Slice pdc.EmbeddingBag"))
      << operatorsRead(model);
  EXPECT_EQ(bag.attributes.string("mode", ""), "max");
  EXPECT_NO_THROW(checkConditions(model, Binding(model, 4, {{"n", 9}, {"bags", 4}})));
}

/// Where rows, bounds or what is appended are others.
TEST(Loops, otherBodiesAppendNoBags) {
  const std::pair<const char *, const char *> changes[] = {
      {"end = Slice(offsets, begin, behind)", "end = Slice(offsets, begin, begin)"},
      {"behind = Add(at, two)", "behind = Add(at, one)"},
      {"start = Slice(offsets, at, begin)", "start = Slice(begun, at, begin)"},
      {"some = Slice(rows, start, end)", "some = Slice(rows, end, start)"},
      {"rest = Slice(rows, start, size)", "rest = Slice(rows, end, size)"},
      {"rest = Slice(rows, start, size)", "most = Slice(rows, start, size)  rest = Neg(most)"},
      {"last = Sub(count, one)", "last = Sub(count, two)"},
      {"empty = Equal(start, end)", "empty = Equal(start, start)"},
      {"value_floats = [0.0]", "value_floats = [1.0]"},
      {"ReduceMax(found, zeros)", "ReduceProd(found, zeros)"},
      {"ReduceMax(found, zeros)", "ReduceMax<keepdims = 0>(found, zeros)"},
      {"next = Add(i, one)", "next = Add(i, two)"},
      {"again = Less(next, count)", "again = Less(i, count)"},
      {"none, first)", "none, one)"},
      {"SequenceInsert(list, appended)", "SequenceInsert(list, appended, first)"}};
  for (auto [changed, instead] : changes) {
    const std::string found = refusal(appendedBags(changed, instead));
    EXPECT_TRUE(says(found, "(Loop)") || says(found, "(If)")) << instead << ": " << found;
  }
}

TEST(Loops, refusals) {
  auto expect = [](const onnx::ModelProto &proto, const std::string &part) {
    const std::string found = refusal(proto);
    EXPECT_TRUE(says(found, part)) << found;
  };
  const std::string advice = "; export the model with the loop written out, as tracing does";
  expect(loopOf("float[2] x, int64 n", "", plain, "n, , x"),
         "(Loop): its condition 'n' is not decided by shapes and constants" + advice);
  expect(loopOf("float[2] x", five,
                "w = Relu(v)  r = Neg(v)  s = ReduceSum(v)  more = Cast<to = 9>(s)", "five, , x"),
         "is not decided by shapes and constants");
  expect(withoutCount(loopOf("float[2] x", five, plain, "five, , x")),
         "the model's loops are more than 10000 nodes" + advice);
  expect(loopOf("float[2] x", "none = Constant<value_int = 0>()", plain, "none, , x"),
         "its output 'rows' has no iteration to stack" + advice);
  expect(loopOf("float[2] x", five, plain, "five, , x, x"),
         "its body has 3 inputs and 3 outputs, the node 4 and 2, which do not fit");
  Model model = read(loopOf("float[n, 2] x", R"(
      shape = Shape(x)  zero = Constant<value_int = 0>()  count = Gather(shape, zero))",
                            plain, "count, , x"));
  EXPECT_THROW(checkConditions(model, Binding(model, 4, {{"n", 4}})), Error);
}
