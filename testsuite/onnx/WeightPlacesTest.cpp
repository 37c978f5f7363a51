#include "compiler/onnx/Parameters.h"
#include "testsuite/onnx/ModelText.h"

using namespace pdc;
using namespace pdc::testing;

using NameSet = std::set<std::string>;

static NameSet trainedOf(const Model &model) {
  return chooseParameters(model, chooseLoss(model, ""), {});
}

static std::map<std::string, std::string> reasonsOf(const Model &model) {
  return reasonsAgainstTraining(model, chooseLoss(model, ""), {});
}

/// DeBERTa normalises its table of relative positions, networks without normalisations their
/// kernels; Swin v2 bounds the logarithms of its scales on one side.
TEST(WeightPlaces, normalisedAndBoundedWeights) {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, 4] y) {
      t = LayerNormalization(table, scale)
      l = Clip(logits, , most)
      e = Exp(l)
      n = Mul(x, e)
      a = Add(n, t)
      u = Unsqueeze(w, zero)
      v = BatchNormalization<training_mode = 1>(u, gain, gain, mean, mean)
      s = Squeeze(v, zero)
      y = MatMul(a, s) })");
  addInitializer(model, "table", {2, 3}, std::vector<float>(6, 1));
  addInitializer(model, "w", {3, 4}, std::vector<float>(12, 1));
  for (const char *name : {"scale", "gain", "mean", "logits"})
    addInitializer(model, name, {3}, {1, 2, 3});
  addInitializer(model, "most", {}, {4});
  onnx::TensorProto &zero = *model.mutable_graph()->add_initializer();
  zero.set_name("zero");
  zero.set_data_type(onnx::TensorProto::INT64);
  zero.add_dims(1);
  zero.add_int64_data(0);
  EXPECT_EQ(trainedOf(read(model)), (NameSet{"gain", "logits", "scale", "table", "w"}));
}

/// A state from which all sequences begin is trained, one for each of the file's samples is not.
TEST(WeightPlaces, initialStates) {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[3, 2, 4] x) => (float[1, 2, 2] y) {
      h = Expand(learned, shape)
      u, v, y = LSTM(x, w, r, , , h, own, peepholes) })");
  addInitializer(model, "learned", {1, 1, 2}, {1, 2});
  addInitializer(model, "own", {1, 2, 2}, {1, 2, 3, 4});
  addInitializer(model, "peepholes", {1, 6}, std::vector<float>(6, 1));
  addInitializer(model, "w", {1, 8, 4}, std::vector<float>(32, 1));
  addInitializer(model, "r", {1, 8, 2}, std::vector<float>(16, 1));
  onnx::TensorProto &shape = *model.mutable_graph()->add_initializer();
  shape.set_name("shape");
  shape.set_data_type(onnx::TensorProto::INT64);
  shape.add_dims(3);
  for (int64_t size : {1, 2, 2})
    shape.add_int64_data(size);
  EXPECT_EQ(trainedOf(read(model)), (NameSet{"learned", "peepholes", "r", "w"}));
  EXPECT_EQ(reasonsOf(read(model)),
            (std::map<std::string, std::string>{{"own", "a state of each sample"}}));
}

/// A weight is repeated for the samples or put beside them, as the tokens that stand for hidden
/// patches (MAE); what is picked from as it is may be a table (of a diffusion's steps) that nobody
/// trains.
TEST(WeightPlaces, pickedElements) {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[2, 3, 4] x, int64[2, 3, 4] i, int64[2, 1] n) => (float[2, 3, 4] y) {
      moved = Transpose <perm = [0, 2, 1]> (token)
      all = Concat <axis = 1> (x, moved)
      picked = GatherElements <axis = 1> (all, i)
      row = GatherND (rows, n)
      y = Add(picked, row) })");
  addInitializer(model, "token", {2, 4, 3}, std::vector<float>(24, 1));
  addInitializer(model, "rows", {5, 4}, std::vector<float>(20, 2));
  EXPECT_EQ(trainedOf(read(model)), (NameSet{"token"}));
  EXPECT_EQ(reasonsOf(read(model)).at("rows"), "a table that elements are picked from");
}

/// As PyTorch's older exporter writes entries that are set, planes that are sampled, logarithms of
/// shares and norms; what stands where weights seldom do is told.
TEST(WeightPlaces, otherPlaces) {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[2, 3] x, int64[3, 1] rows, float[1, 2, 2, 2] grid) => (float[2, 3] y) {
      set = ScatterND(zeros, rows, entries)
      picked = GridSample(plane, grid)
      sampled = ReduceSum <keepdims = 0> (picked)
      log_shares = LogSoftmax(shares)
      sorted, order = TopK <axis = 0> (bins, three)
      norm = ReduceL2 <keepdims = 0> (vector)
      image = Conv(constant, kernel)
      level = ReduceMean <keepdims = 0> (image)
      turned = Cos(phases)
      a = Mul(x, set)
      b = Mul(a, sampled)
      c = Mul(b, log_shares)
      d = Mul(c, sorted)
      e = Mul(d, norm)
      f = Mul(e, level)
      y = Mul(f, turned) })");
  const std::pair<const char *, std::vector<int64_t>> tensors[] = {
      {"zeros", {3}},  {"entries", {3}}, {"plane", {1, 1, 3, 3}},    {"shares", {3}},
      {"bins", {3}},   {"vector", {3}},  {"constant", {1, 1, 3, 3}}, {"kernel", {1, 1, 2, 2}},
      {"phases", {3}},
  };
  for (const auto &[name, shape] : tensors) {
    int64_t count = 1;
    for (int64_t size : shape)
      count *= size;
    addInitializer(model, name, shape, std::vector<float>(static_cast<size_t>(count), 0.5));
  }
  onnx::TensorProto &three = *model.mutable_graph()->add_initializer();
  three.set_name("three");
  three.set_data_type(onnx::TensorProto::INT64);
  three.add_dims(1);
  three.add_int64_data(3);
  EXPECT_EQ(trainedOf(read(model)),
            (NameSet{"bins", "constant", "entries", "kernel", "plane", "shares", "vector"}));
  EXPECT_EQ(reasonsOf(read(model)),
            (std::map<std::string, std::string>{{"phases", "where weights seldom stand"},
                                                {"zeros", "where weights seldom stand"}}));
}

/// A part of what a layer is named to train may be set to zeros, as torchvision's Swin v2 does with
/// the biases of keys; a buffer may be named so, too, as the causal mask of small GPTs.
TEST(WeightPlaces, namedAsWeights) {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[2, 3] x, int64[1, 1] rows, float[1] zero) => (float[2, 3] y) {
      changed = ScatterND(f, rows, zero)
      kept = ScatterND(cache, rows, zero)
      hidden = Equal(g, zero)
      a = Mul(x, changed)
      b = Mul(a, kept)
      y = Where(hidden, zero, b) })");
  *model.mutable_graph()->mutable_node(0)->mutable_input(0) = "layer.qkv.bias";
  *model.mutable_graph()->mutable_node(2)->mutable_input(0) = "layer.bias";
  for (const char *name : {"layer.qkv.bias", "cache", "layer.bias"})
    addInitializer(model, name, {3}, {1, 2, 3});
  EXPECT_EQ(trainedOf(read(model)), (NameSet{"layer.qkv.bias"}));
  EXPECT_EQ(reasonsOf(read(model)),
            (std::map<std::string, std::string>{{"cache", "where weights seldom stand"},
                                                {"layer.bias", "where weights seldom stand"}}));
}

/// As torchvision's and Hugging Face's frozen BatchNormalizations are, whose scale and shift are
/// buffers, too; of layers that are not, these are weights.
TEST(WeightPlaces, writtenNormalisations) {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, 3] y) {
      d = Sqrt(a)
      scale = Div(b, d)
      shifted = Mul(c, scale)
      bias = Sub(e, shifted)
      scaled = Mul(x, scale)
      normal = Add(scaled, bias)
      y = Mul(normal, f) })");
  const std::pair<int, std::pair<int, const char *>> names[] = {{0, {0, "norm.running_var"}},
                                                                {1, {0, "norm.weight"}},
                                                                {2, {0, "norm.running_mean"}},
                                                                {3, {0, "norm.bias"}},
                                                                {6, {1, "other.weight"}}};
  for (const auto &[node, operand] : names) {
    *model.mutable_graph()->mutable_node(node)->mutable_input(operand.first) = operand.second;
    addInitializer(model, operand.second, {3}, {1, 2, 3});
  }
  EXPECT_EQ(trainedOf(read(model)), (NameSet{"other.weight"}));
  EXPECT_EQ(reasonsOf(read(model)).size(), 4);
  EXPECT_EQ(reasonsOf(read(model)).at("norm.weight"),
            "of a BatchNormalization that is written out, as frozen ones are");
}

/// Coordinates beside an image, zeros that it is put on, and what an exporter has folded are
/// convolved, too.
TEST(WeightPlaces, convolvedImages) {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[1, 2, 4, 4] x, int64[1, 1] rows) => (float[1, 2, 4, 4] y) {
      beside = Concat <axis = 1> (x, coordinates)
      a = Conv(beside, wide)
      drawn = ScatterND(canvas, rows, x)
      b = Conv(drawn, narrow)
      whole = Expand(constant, shape)
      c = Conv(whole, narrow)
      d = Conv(f, narrow)
      y = Sum(a, b, c, d) })");
  *model.mutable_graph()->mutable_node(6)->mutable_input(0) = "onnx::Conv_7";
  for (const char *name : {"coordinates", "canvas", "constant", "onnx::Conv_7"})
    addInitializer(model, name, {1, 2, 4, 4}, std::vector<float>(32, 0.5));
  addInitializer(model, "wide", {2, 4, 1, 1}, {1, 2, 3, 4, 5, 6, 7, 8});
  addInitializer(model, "narrow", {2, 2, 1, 1}, {1, 2, 3, 4});
  onnx::TensorProto &shape = *model.mutable_graph()->add_initializer();
  shape.set_name("shape");
  shape.set_data_type(onnx::TensorProto::INT64);
  shape.add_dims(4);
  for (int64_t size : {1, 2, 4, 4})
    shape.add_int64_data(size);
  EXPECT_EQ(trainedOf(read(model)), (NameSet{"constant", "narrow", "wide"}));
  EXPECT_EQ(reasonsOf(read(model)),
            (std::map<std::string, std::string>{{"canvas", "where weights seldom stand"},
                                                {"coordinates", "where weights seldom stand"},
                                                {"onnx::Conv_7", "made by its exporter"}}));
}
