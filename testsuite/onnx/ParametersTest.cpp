#include "testsuite/onnx/ParametersText.h"

#include <limits>

using namespace pdc;
using namespace pdc::testing;

/// Whatever it is called: nobody trains what hides keys. Flags are constants too, unless they are
/// trained.
TEST(Parameters, masksByWhatTheyHold) {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[2, 2] x) => (float[2, 2] y) {
      a = Add(x, hides)
      b = Add(a, flags)
      c = Add(b, row)
      y = Add(c, weight) })");
  const float never = -std::numeric_limits<float>::infinity();
  addInitializer(model, "hides", {2, 2}, {0, never, 0, -1e9f});
  addInitializer(model, "flags", {2, 2}, {1, 0, 1, 1});
  addInitializer(model, "row", {2}, {0, never});
  addInitializer(model, "weight", {2, 2}, {0, 1, -2, -1e9f});
  const Model found = read(model);
  EXPECT_EQ(trainedOf(found), (NameSet{"flags", "row", "weight"}));
  auto kind = [&](const char *name) { return kindOfMask(found.initializers.at(name)); };
  EXPECT_EQ(kind("hides"), MaskKind::hides);
  EXPECT_EQ(kind("flags"), MaskKind::flags);
  EXPECT_EQ(kind("row"), MaskKind::none);
  EXPECT_EQ(kind("weight"), MaskKind::none);
}

/// A decay as RWKV and Mamba have it, a mixture of layers and positions that are made larger, all
/// terms of a sum; numbers of no dimensions, exponents and fills of one element, angles, triangles
/// of masks, and what decides, are none.
TEST(Parameters, behindFunctions) {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, 6] y) {
      e = Exp(decay)
      n = Neg(e)
      a = Mul(x, n)
      b = Pow(a, exponent)
      m = Softmax(mixture)
      c = Mul(b, m)
      k = Greater(c, threshold)
      d = Where(k, c, token)
      f = Clip(d, least)
      r = Resize(positions, , scales)
      g = Max(r, floor)
      q = Concat<axis = 1>(f, f)
      h = Cos(angles)
      i = Mul(q, h)
      j = Trilu(triangle)
      l = Sum(i, g, bias)
      y = Add(l, j) })");
  for (const char *name : {"decay", "mixture", "threshold", "token", "positions"})
    addInitializer(model, name, {1, 3}, {1, 2, 3});
  addInitializer(model, "exponent", {1}, {3});
  for (const char *name : {"angles", "bias", "floor"})
    addInitializer(model, name, {6}, {1, 1, 1, 1, 1, 1});
  addInitializer(model, "triangle", {2, 6}, std::vector<float>(12, 1));
  addInitializer(model, "least", {}, {0});
  addInitializer(model, "scales", {2}, {1, 2});
  EXPECT_EQ(trainedOf(read(model)),
            (NameSet{"bias", "decay", "floor", "mixture", "positions", "token"}));
}

/// Tools that simplify graphs make initializers of Constant nodes.
TEST(Parameters, constantsThatAreInitializers) {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, 3] y) {
      a = Add(x, epsilon)
      b = Mul(a, scale)
      y = Add(b, bias) })");
  addInitializer(model, "epsilon", {}, {1e-5F});
  addInitializer(model, "scale", {1}, {0.5F});
  addInitializer(model, "bias", {3}, {1, 2, 3});
  EXPECT_EQ(trainedOf(read(model)), (NameSet{"bias", "scale"}));
  model.mutable_graph()->mutable_initializer(1)->set_name("/norm/Constant_1_output_0");
  model.mutable_graph()->mutable_node(1)->set_input(1, "/norm/Constant_1_output_0");
  EXPECT_EQ(trainedOf(read(model)), NameSet{"bias"});
}

/// Other tools number their tensors Constant_12, weights among them.
TEST(Parameters, namesOfConstants) {
  onnx::ModelProto model = twoLayers();
  auto rename = [&](int initializer, int node, const char *name) {
    model.mutable_graph()->mutable_initializer(initializer)->set_name(name);
    model.mutable_graph()->mutable_node(node)->set_input(1, name);
  };
  rename(0, 0, "Constant_12");
  rename(2, 1, "net.Constant_13_bias");
  rename(3, 3, "Constant_output_0");
  EXPECT_EQ(trainedOf(read(model)), (NameSet{"Constant_12", "net.Constant_13_bias", "w2"}));
  EXPECT_EQ(reasonsOf(read(model)),
            (std::map<std::string, std::string>{{"Constant_output_0", "named as a constant"}}));
}

static std::string whyNothingTrains(const Model &model) {
  try {
    return std::to_string(trainedOf(model).size()) + " train";
  } catch (const Error &error) {
    return error.what();
  }
}

TEST(Parameters, namesThatReadAsPatterns) {
  onnx::ModelProto proto = twoLayers();
  for (auto [node, name] : {std::pair(0, "w[2]"), {2, "w2"}}) {
    proto.mutable_graph()->mutable_initializer(node / 2)->set_name(name);
    proto.mutable_graph()->mutable_node(node)->set_input(1, name);
  }
  const Model model = read(proto);
  const Loss loss = chooseLoss(model, "");
  EXPECT_EQ(chooseParameters(model, loss, {{}, {"w[2]"}}), (NameSet{"b1", "b2", "w2"}));
  EXPECT_EQ(chooseParameters(model, loss, {{"w[2]"}, {}}), NameSet{"w[2]"});
  EXPECT_EQ(chooseParameters(model, loss, {{}, {"w[123]"}}), (NameSet{"b1", "b2", "w[2]"}));
  const UpdateGroups groups =
      chooseGroups(model, "sgd", trainedOf(model), {{"w[2]", "b?"}, {"w[2]=0.5", "b?=2"}});
  EXPECT_EQ(groups.noDecay, (std::vector<std::string>{"w\\[2\\]", "b?"}));
  EXPECT_EQ(groups.lrScale, (std::vector<std::string>{"w\\[2\\]=0.5", "b?=2"}));
}

/// As of a file whose first output is an input that is handed through.
TEST(Parameters, outputsThatDependOnNoWeight) {
  onnx::ModelProto model = twoLayers();
  const onnx::ValueInfoProto y = model.graph().output(0);
  *model.mutable_graph()->mutable_output(0) = model.graph().input(0);
  const std::string judged = "test.onnx: 'x', which the loss judges, depends on no weight; ";
  EXPECT_EQ(whyNothingTrains(read(model)), judged + "export the model with an output that does");
  *model.mutable_graph()->add_output() = y;
  EXPECT_EQ(whyNothingTrains(read(model)),
            judged + "name an output that does with --loss, as in --loss cross_entropy:y");
}

/// What a layer reads is never an epsilon.
TEST(Parameters, singleNumbers) {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, 3] y) {
      a = PRelu(x, slope)
      y = Mul(a, alpha) })");
  addInitializer(model, "slope", {}, {0.25F});
  addInitializer(model, "alpha", {}, {1});
  EXPECT_EQ(trainedOf(read(model)), NameSet{"slope"});
  EXPECT_EQ(reasonsOf(read(model)),
            (std::map<std::string, std::string>{{"alpha", "a single number"}}));
  const Model parsed = read(model);
  const Loss loss = chooseLoss(parsed, "");
  EXPECT_EQ(chooseParameters(parsed, loss, {{"alpha"}, {}}), NameSet{"alpha"});
  EXPECT_EQ(chooseParameters(parsed, loss, {{"+al*"}, {}}), (NameSet{"alpha", "slope"}));
  EXPECT_TRUE(reasonsAgainstTraining(parsed, loss, {{"+al*"}, {}}).empty());
  EXPECT_TRUE(reasonsAgainstTraining(parsed, chooseLoss(parsed, ""), {{"alpha"}, {}}).empty());
  EXPECT_TRUE(reasonsAgainstTraining(parsed, chooseLoss(parsed, ""), {{}, {"al*"}}).empty());
}

/// Scripts write weights as constants, too: what is left untrained is named.
TEST(Parameters, weightsInConstantNodes) {
  const Model model = read(protoOf(std::string(header) + R"(
    net (float[2, 2] x) => (float[2, 2] y) <float[2] b = {1, 2}> {
      w = Constant<value = float[2, 2] {1, 2, 3, 4}>()
      m = MatMul(x, w)
      y = Add(m, b) })"));
  EXPECT_EQ(trainedOf(model), NameSet{"b"});
  EXPECT_EQ(reasonsOf(model), (std::map<std::string, std::string>{{"w", "in a Constant node"}}));
  EXPECT_EQ(chooseParameters(model, chooseLoss(model, ""), {{"+w"}, {}}), (NameSet{"b", "w"}));
}

/// Of one element are what keeps a root from zero and, of exporters that write all numbers so, a
/// state of zeros that is repeated for each sample, and a factor; a bias of one element is none.
TEST(Parameters, numbersWithDimensions) {
  auto trainedBy = [](const char *producer) {
    onnx::ModelProto model = protoOf(std::string(header) + R"(
      net (float[2, 3] x) => (float[2, 1] y) <int64[2] x_shape = {2, 3}> {
        h = Expand(zero, x_shape)
        l = Expand(learned, x_shape)
        n = Mul(x, l)
        a = Add(n, epsilon)
        r = Sqrt(a)
        s = Mul(r, factor)
        g = Mul(s, gamma)
        u = Add(g, h)
        m = MatMul(h, w)
        v = MatMul(u, w)
        t = Add(v, m)
        c = Add(t, bias)
        y = Sqrt(c) })");
    model.set_producer_name(producer);
    addInitializer(model, "w", {3, 1}, {1, 2, 3});
    addInitializer(model, "zero", {1}, {0});
    addInitializer(model, "epsilon", {1}, {1e-3F});
    addInitializer(model, "factor", {1, 1}, {0.5F});
    addInitializer(model, "bias", {1}, {0});
    addInitializer(model, "gamma", {1}, {1});
    addInitializer(model, "learned", {1}, {1.5F});
    const Model parsed = read(model);
    return chooseParameters(parsed, chooseLoss(parsed, "mse"), {});
  };
  EXPECT_EQ(trainedBy("pytorch"), (NameSet{"bias", "factor", "gamma", "learned", "w", "zero"}));
  EXPECT_EQ(trainedBy("tf2onnx"), (NameSet{"bias", "gamma", "learned", "w"}));
}

/// A layer may be called a mask; what it trains is no mask, nor is what stands in for what is
/// hidden.
TEST(Parameters, layersNamedAsMasks) {
  auto isTrained = [](const std::string &name) {
    onnx::ModelProto model = protoOf(std::string(header) + R"(
      net (float[2, 3] x) => (float[2, 3] y) {
        a = MatMul(x, w)
        y = MatMul(a, m) })");
    *model.mutable_graph()->mutable_node(0)->mutable_input(1) = "layer.weight";
    *model.mutable_graph()->mutable_node(1)->mutable_input(1) = name;
    addInitializer(model, "layer.weight", {3, 3}, std::vector<float>(9, 1));
    addInitializer(model, name, {3, 3}, std::vector<float>(9, 1));
    return trainedOf(read(model)).contains(name);
  };
  for (const char *name :
       {"mask.weight", "mask_decoder.in_proj_weight", "net.mask_net.weight_ih_l0_reverse",
        "rotary_block.attn.in_proj_weight", "mask_head.weight_v", "mask_token",
        "decoder.mask_tokens", "masked_spec_embed", "unmask_query", "mask_head/kernel:0",
        "vit/mask_token:0", "mask_token_0", "mask_gamma", "rotary_vit.blocks.0.cls_token",
        "rotary/dense/MatMul/ReadVariableOp:0", "mask_scale"})
    EXPECT_TRUE(isTrained(name)) << name;
  for (const char *name :
       {"mask", "attn.mask", "attn.causal_mask.1", "attn.token_mask", "attn.masked_bias",
        "model.final_logits_bias", "rotary_emb.inv_freq", "rotary_emb.freqs", "attn.rotary.0",
        "attn.cos_cached", "rotary_pos_emb", "rotary_embs.0.freqs", "rotary_emb.scale",
        "weight_mask", "0.bias_mask", "attn.mask_bias", "mask:0", "bias_mask_1"})
    EXPECT_FALSE(isTrained(name)) << name;
}

TEST(Parameters, straightThrough) {
  auto undone = [](const std::string &sum) {
    return undoneDifferences(read(protoOf(std::string(header) + R"(
      net (float[2, 3] x, float[2, 3] q) => (float[2, 3] y) {
        d = Sub(q, x)
        )" + sum + "}")));
  };
  EXPECT_EQ(undone("y = Add(x, d)").size(), 1u);
  EXPECT_EQ(undone("y = Add(d, x)").size(), 1u);
  EXPECT_TRUE(undone("y = Add(d, q)").empty());
  EXPECT_TRUE(undone("e = Relu(d)  y = Add(x, e)").empty());
}
