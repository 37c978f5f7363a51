#include "testsuite/operators/Tape.h"

#include <algorithm>

/// Operators that are composed of others: gradients by finite differences. Their values are those
/// of ONNX's node tests.
namespace pdc::test {

TEST(Composition, Reductions) {
  Draw draw;
  for (const char *op : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMin",
                         "ReduceSumSquare"})
    for (int64_t keeps : {0, 1}) {
      bool isMin = op == std::string_view("ReduceMin");
      Tensor x = isMin ? draw.distinct({2, 3, 4}) : draw.reals({2, 3, 4}, 0.2, 2);
      checkComposedGradient({op, {{"keepdims", keeps}}, {x, Tensor::vector({0, 2})}, {0}});
      checkComposedGradient({op, {{"keepdims", keeps}}, {x}, {0}});
    }
}

TEST(Composition, Rearrangements) {
  Draw draw;
  const Tensor bound = Tensor::scalar(ElementType::f64, 0.1);
  checkComposedGradient({"OneSidedClip", {}, {draw.distinct({30}), bound}, {0}});
  checkComposedGradient({"OneSidedClip", {}, {draw.distinct({30}), kAbsent, bound}, {0}});
  checkComposedGradient({"Tile", {}, {draw.reals({2, 3}), Tensor::vector({3, 2})}, {0}});
  for (const char *mode : {"DCR", "CRD"})
    checkComposedGradient({"DepthToSpace",
                           {{"blocksize", int64_t(2)}, {"mode", std::string(mode)}},
                           {draw.reals({2, 8, 3, 2})},
                           {0}});
  checkComposedGradient(
      {"SpaceToDepth", {{"blocksize", int64_t(2)}}, {draw.reals({2, 3, 4, 2})}, {0}});
}

TEST(Composition, Pads) {
  Draw draw;
  for (const char *mode : {"constant", "edge", "reflect", "wrap"}) {
    Attributes attributes = {{"mode", std::string(mode)}};
    Tensor some = Tensor::vector({1, 4, 2, 0}), axes = Tensor::vector({-1, 1});
    checkComposedGradient({"Pad", attributes, {draw.reals({2, 3, 4}), some, kAbsent, axes}, {0}});
    if (mode == std::string_view("constant"))
      continue;
    Tensor pads = Tensor::vector({0, 2, -1, 0, 7, 2});
    checkComposedGradient({"Pad", attributes, {draw.reals({2, 3, 4}), pads}, {0}});
  }
}

/// The rule's own reference, which folds constants, and what it is composed of agree.
TEST(Composition, PadsRepeatElements) {
  auto padded = [](const char *mode) {
    Tensor x{{ElementType::f64, {4}}, {1, 2, 3, 4}};
    return run({"Pad", {{"mode", std::string(mode)}}, {x, Tensor::vector({5, 3})}})[0].data;
  };
  using Numbers = std::vector<double>;
  EXPECT_EQ(padded("edge"), (Numbers{1, 1, 1, 1, 1, 1, 2, 3, 4, 4, 4, 4}));
  EXPECT_EQ(padded("reflect"), (Numbers{2, 3, 4, 3, 2, 1, 2, 3, 4, 3, 2, 1}));
  EXPECT_EQ(padded("wrap"), (Numbers{4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3}));
}

TEST(Composition, ShortForms) {
  Draw draw;
  checkComposedGradient({"Mean", {}, {draw.reals({3})}, {0}});
  checkComposedGradient(
      {"Mean", {}, {draw.reals({2, 3}), draw.reals({1, 3}), draw.reals({2, 1})}, {0, 1, 2}});
  checkComposedGradient({"CastLike", {}, {draw.reals({2, 3}), draw.reals({1})}, {0}});
  checkComposedGradient({"Shrink", {{"lambd", 0.6}, {"bias", 0.25}}, {draw.distinct({5, 4})}, {0}});
  for (Shape shape : {Shape{2, 3, 4, 2}, Shape{1, 1, 5}, Shape{2, 1, 2, 1, 3}})
    checkComposedGradient({"GlobalMaxPool", {}, {draw.distinct(shape)}, {0}});
}

TEST(Composition, GemmScalesWhatItAdds) {
  Draw draw;
  for (Shape c : {Shape{4}, Shape{3, 1}, Shape{}})
    checkComposedGradient({"Gemm",
                           {{"alpha", 0.5}, {"beta", -1.5}, {"transB", int64_t(1)}},
                           {draw.reals({3, 5}), draw.reals({4, 5}), draw.reals(c)},
                           {0, 1, 2}});
}

TEST(Composition, PowersOfAnotherType) {
  Draw draw;
  checkComposedGradient({"Pow", {}, {draw.reals({2, 3}), integers({3}, {2, 0, 3})}, {0}});
}

TEST(Composition, PowersOfWholeNumbers) {
  const Tensor bases = integers({2, 3}, {3, -2, 0, 2, -1, 7}),
               exponents = integers({3}, {30, 5, 0});
  EXPECT_EQ(tapeValue({"Pow", {}, {bases, exponents}, {}}).data,
            (std::vector<double>{205891132094649, -32, 1, 1073741824, -1, 1}));
}

TEST(Composition, TopK) {
  Draw draw;
  for (int64_t axis : {0, 1, -1})
    for (int64_t largest : {0, 1})
      checkComposedGradient({"TopK",
                             {{"axis", axis}, {"largest", largest}},
                             {draw.distinct({3, 4, 5}), Tensor::vector({2})},
                             {0}});
}

/// Bags of one size, some that leave rows out, uneven ones and an empty one.
TEST(Composition, EmbeddingBags) {
  Draw draw;
  const Tensor table = draw.distinct({5, 3}), indices = integers({6}, {4, 0, 2, 2, 1, 4}),
               weights = draw.reals({6});
  struct Bounds {
    std::vector<double> starts, ends;
  };
  for (const Bounds &bounds : {Bounds{{0, 2, 4}, {2, 4, 6}}, Bounds{{1, 3, 6}, {3, 5}},
                               Bounds{{0, 1, 6}, {1, 6}}, Bounds{{0, 2, 2}, {2, 2, 5}}})
    for (const char *mode : {"sum", "mean", "max"}) {
      const int64_t count = static_cast<int64_t>(bounds.ends.size());
      const int64_t begins = static_cast<int64_t>(bounds.starts.size());
      const Case test{"pdc.EmbeddingBag",
                      {{"mode", std::string(mode)}},
                      {table, indices, integers({begins}, bounds.starts),
                       integers({count}, bounds.ends), Tensor::scalar(ElementType::i64, count)},
                      {0}};
      checkComposedGradient(test);
      const Tensor found = tapeValue(test);
      for (int64_t i = 0; i < count; ++i)
        for (int64_t column = 0; column < 3; ++column) {
          std::vector<double> bag;
          for (auto k = int64_t(bounds.starts[i]); k < int64_t(bounds.ends[i]); ++k)
            bag.push_back(table.data[int64_t(indices.data[k]) * 3 + column]);
          double expected = 0;
          if (!bag.empty() && mode == std::string_view("max"))
            expected = *std::ranges::max_element(bag);
          else
            for (double value : bag)
              expected += mode == std::string_view("sum") ? value : value / double(bag.size());
          EXPECT_NEAR(found.data[i * 3 + column], expected, 1e-12) << mode << i << column;
        }
      Case weighted = test;
      weighted.inputs.push_back(weights);
      weighted.wanted = {0, 5};
      checkComposedGradient(weighted);
    }
}

TEST(Composition, CastsToTheSameElements) {
  Draw draw;
  const Case test{"Cast", {{"to", int64_t(11)}}, {draw.reals({2, 3})}, {0}};
  checkComposedGradient(test);
  EXPECT_EQ(tapeValue(test).data, test.inputs[0].data);
}

TEST(Composition, Attention) {
  Draw draw;
  Tensor mask{{ElementType::boolean, {3, 4}}, {1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1}};
  Tensor q = draw.reals({2, 4, 3, 2}), k = draw.reals({2, 2, 4, 2}), v = draw.reals({2, 2, 4, 3});
  checkComposedGradient({"Attention", {}, {q, k, v, mask}, {0, 1, 2}}, 1e-5);
  checkComposedGradient(
      {"Attention", {{"softcap", 0.7}}, {q, k, v, draw.reals({3, 4})}, {0, 1, 2, 3}}, 1e-5);
  Attributes heads = {{"q_num_heads", int64_t(4)},
                      {"kv_num_heads", int64_t(2)},
                      {"scale", 0.3},
                      {"is_causal", int64_t(1)}};
  checkComposedGradient({"Attention",
                         heads,
                         {draw.reals({2, 3, 8}), draw.reals({2, 3, 4}), draw.reals({2, 3, 6})},
                         {0, 1, 2}},
                        1e-5);
  heads.set("qk_matmul_output_mode", int64_t(2));
  checkComposedGradient({"Attention",
                         heads,
                         {draw.reals({2, 3, 8}), draw.reals({2, 3, 4}), draw.reals({2, 3, 6}),
                          kAbsent, draw.reals({2, 2, 2, 2}), draw.reals({2, 2, 2, 3})},
                         {0, 1, 2, 4, 5}},
                        1e-5);
}

TEST(Composition, RotaryEmbedding) {
  Draw draw;
  Tensor cosines = draw.reals({5, 3}), sines = draw.reals({5, 3});
  Tensor places = integers({2, 4}, {0, 1, 2, 3, 4, 2, 0, 1});
  for (int64_t neighbours : {0, 1}) {
    Attributes turns = {{"interleaved", neighbours}};
    checkComposedGradient(
        {"RotaryEmbedding", turns, {draw.reals({2, 2, 4, 6}), cosines, sines, places}, {0, 1, 2}});
    turns.set("num_heads", int64_t(2));
    turns.set("rotary_embedding_dim", int64_t(6));
    checkComposedGradient({"RotaryEmbedding",
                           turns,
                           {draw.reals({2, 4, 16}), draw.reals({2, 4, 3}), draw.reals({2, 4, 3})},
                           {0, 1, 2}});
  }
}

TEST(Composition, Trilu) {
  Draw draw;
  for (int64_t upper : {0, 1})
    for (int64_t k : {-1, 0, 1})
      checkComposedGradient(
          {"Trilu", {{"upper", upper}}, {draw.reals({2, 3, 4}), Tensor::vector({k})}, {0}});
}

TEST(Composition, Losses) {
  Draw draw;
  Tensor labels = integers({3, 2}, {0, 3, -1, 2, 1, 0});
  for (const char *op : {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"})
    for (const char *reduction : {"mean", "none"})
      checkComposedGradient(
          {op,
           {{"reduction", std::string(reduction)}, {"ignore_index", int64_t(-1)}},
           {draw.reals({3, 4, 2}), labels, draw.reals({4}, 0.5, 2)},
           {0}});
}

TEST(Composition, Indexing) {
  Draw draw;
  Tensor pairs = integers({3, 2}, {0, 1, 2, -1, 0, 1}), apart = integers({2, 2}, {0, 1, 2, -1});
  checkComposedGradient({"GatherND", {}, {draw.reals({3, 4, 2}), pairs}, {0}});
  checkComposedGradient({"GatherND",
                         {{"batch_dims", int64_t(1)}},
                         {draw.reals({2, 3, 4}), integers({2, 2, 1}, {0, 2, -1, 2})},
                         {0}});
  Tensor places = integers({2, 3}, {0, -1, 1, 1, 0, 2});
  for (int64_t axis : {0, 1})
    checkComposedGradient(
        {"GatherElements", {{"axis", axis}}, {draw.reals({3, 3}), places}, {0}});
  checkComposedGradient(
      {"ScatterND", {}, {draw.reals({3, 4, 2}), apart, draw.reals({2, 2})}, {0, 2}});
  checkComposedGradient({"ScatterND",
                         {{"reduction", std::string("add")}},
                         {draw.reals({3, 4, 2}), pairs, draw.reals({3, 2})},
                         {0, 2}});
  Tensor distinct = integers({2, 3}, {0, 2, 1, 1, 0, 2});
  checkComposedGradient({"ScatterElements",
                         {{"axis", int64_t(1)}},
                         {draw.reals({3, 3}), distinct, draw.reals({2, 3})},
                         {0, 2}});
  for (const char *reduction : {"max", "min"}) {
    const Attributes most = {{"axis", int64_t(1)}, {"reduction", std::string(reduction)}};
    const Tensor repeated = integers({3, 4}, {0, 2, 1, 1, 0, 2, 2, 2, -1, 0, 0, 1});
    checkComposedGradient(
        {"ScatterElements", most, {draw.reals({3, 3}), repeated, draw.reals({3, 4})}, {0, 2}});
  }
  checkComposedGradient({"ScatterND",
                         {{"reduction", std::string("max")}},
                         {draw.reals({3, 4, 2}), pairs, draw.reals({3, 2})},
                         {0, 2}});
  checkComposedGradient({"OneHot",
                         {{"axis", int64_t(1)}},
                         {integers({2, 2}, {0, 3, -1, 1}), Tensor::vector({4}), draw.reals({2})},
                         {2}});
}

/// Each of the largest has an equal part of the gradient; of a row without updates the data has all.
TEST(Composition, LargestUpdatesShareTheirGradient) {
  auto row = [](std::vector<double> values) {
    const auto count = static_cast<int64_t>(values.size());
    return Tensor{{ElementType::f32, {count}}, std::move(values)};
  };
  const double lowest = -std::numeric_limits<double>::infinity();
  const Case test = {"ScatterElements",
                     {{"reduction", std::string("max")}},
                     {row({2, lowest, 5, 1}), integers({5}, {0, 0, 1, 0, 1}), row({2, 2, 7, 1, 3})},
                     {0, 2}};
  EXPECT_EQ(tapeValue(test).data, (std::vector<double>{2, 7, 5, 1}));
  const std::vector<Tensor> found = tapeGradients(test, row({3, 1, 1, 1}));
  EXPECT_EQ(found[0].data, (std::vector<double>{1, 0, 1, 1}));
  EXPECT_EQ(found[1].data, (std::vector<double>{1, 1, 1, 0, 0}));
}

TEST(Composition, Normalisations) {
  Draw draw;
  Tensor x = draw.reals({2, 4, 3, 2});
  Attributes groups = {{"num_groups", int64_t(2)}, {"epsilon", 1e-2}};
  checkComposedGradient(
      {"InstanceNormalization", {}, {x, draw.reals({4}), draw.reals({4})}, {0, 1, 2}}, 1e-5);
  const Tensor ones{{ElementType::f64, {4}}, {1, 1, 1, 1}}, zeros = Tensor::zeros(ones.type);
  checkComposedGradient({"InstanceNormalization", {}, {x, ones, zeros}, {0}}, 1e-5);
  for (const Tensor &scales : {x, draw.reals({2, 4})})
    checkComposedGradient(
        {"GroupNormalization", groups, {scales, draw.reals({2}), draw.reals({2})}, {0, 1, 2}, 3},
        1e-5);
  for (int64_t p : {1, 2})
    checkComposedGradient({"LpNormalization", {{"axis", int64_t(1)}, {"p", p}}, {x}, {0}}, 1e-5);
  checkComposedGradient({"MeanVarianceNormalization", {}, {x}, {0}}, 1e-5);
}

TEST(Composition, Col2Im) {
  Draw draw;
  Attributes window = {{"strides", std::vector<int64_t>{2, 1}},
                       {"dilations", std::vector<int64_t>{1, 2}},
                       {"pads", std::vector<int64_t>{1, 0, 1, 0}}};
  std::vector<Tensor> inputs = {draw.reals({2, 12, 4}), Tensor::vector({3, 4}),
                                Tensor::vector({2, 2})};
  checkComposedGradient({"Col2Im", window, inputs, {0}});
  inputs = {draw.reals({2, 6, 3}), Tensor::vector({5}), Tensor::vector({3})};
  checkComposedGradient({"Col2Im", {}, inputs, {0}});
}

TEST(Composition, ConvTranspose) {
  Draw draw;
  Attributes window = {{"strides", std::vector<int64_t>{2, 1}},
                       {"pads", std::vector<int64_t>{1, 0, 0, 1}},
                       {"output_padding", std::vector<int64_t>{1, 0}},
                       {"group", int64_t(2)}};
  std::vector<Tensor> inputs = {draw.reals({2, 4, 3, 3}), draw.reals({4, 3, 2, 3}), draw.reals({6})};
  checkComposedGradient({"ConvTranspose", window, inputs, {0, 1, 2}});
}

/// Padding of the output makes room for one stride more, for two and for none.
TEST(Composition, ConvTransposeIntoPaddedOutput) {
  Draw draw;
  Attributes window = {{"strides", std::vector<int64_t>{1, 1, 2}},
                       {"dilations", std::vector<int64_t>{2, 3, 2}},
                       {"output_padding", std::vector<int64_t>{1, 2, 1}}};
  std::vector<Tensor> inputs = {draw.reals({1, 2, 2, 3, 2}), draw.reals({2, 1, 2, 2, 2}),
                                draw.reals({1})};
  checkComposedGradient({"ConvTranspose", window, inputs, {0, 1, 2}});
}

TEST(Composition, Resize) {
  Draw draw;
  Tensor sizes = Tensor::vector({1, 2, 5, 7});
  for (const char *mode : {"nearest", "linear", "cubic"})
    checkComposedGradient({"Resize",
                           {{"mode", std::string(mode)}},
                           {draw.reals({1, 2, 3, 4}), kAbsent, kAbsent, sizes},
                           {0}});
  checkComposedGradient({"Resize",
                         {{"mode", std::string("linear")}, {"antialias", int64_t(1)},
                          {"axes", std::vector<int64_t>{-2, 3}}},
                         {draw.reals({1, 2, 5, 7}), kAbsent, kAbsent, Tensor::vector({2, 3})},
                         {0}});
}

TEST(Composition, Einsum) {
  Draw draw;
  auto check = [&](const char *equation, std::vector<Tensor> operands) {
    std::vector<size_t> wanted;
    for (size_t i = 0; i < operands.size(); ++i)
      wanted.push_back(i);
    checkComposedGradient({"Einsum", {{"equation", std::string(equation)}}, operands, wanted});
  };
  check("ij,jk->ik", {draw.reals({2, 3}), draw.reals({3, 4})});
  check("bij,bkj->bki", {draw.reals({2, 3, 4}), draw.reals({2, 2, 4})});
  check("bhqd,bhkd->bhqk", {draw.reals({2, 2, 3, 2}), draw.reals({2, 2, 2, 2})});
  check("i,j", {draw.reals({2}), draw.reals({3})});
  check("ij->j", {draw.reals({2, 3})});
  check("...ii->...i", {draw.reals({2, 3, 3})});
  check("ii", {draw.reals({3, 3})});
  check("...i,...i->...", {draw.reals({2, 3}), draw.reals({1, 3})});
  check("ij,jk,kl->il", {draw.reals({2, 3}), draw.reals({3, 2}), draw.reals({2, 4})});
}

TEST(Composition, Recurrent) {
  Draw draw;
  const int64_t steps = 3, batch = 2, size = 3, hidden = 2;
  struct Form {
    const char *op;
    int64_t gates, directions;
    Attributes attributes;
    bool hasPeepholes = false;
  } forms[] = {{"LSTM", 4, 1, {{"input_forget", int64_t(0)}}}, // as ONNX Runtime writes it
               {"LSTM", 4, 2, {{"direction", std::string("bidirectional")}}, true},
               {"GRU", 3, 1, {}},
               {"GRU", 3, 1, {{"linear_before_reset", int64_t(1)}}},
               {"GRU", 3, 1, {{"direction", std::string("reverse")}}},
               {"RNN", 1, 1, {}},
               {"RNN",
                1,
                2,
                {{"direction", std::string("bidirectional")},
                 {"clip", 0.5},
                 {"activations", std::vector<std::string>{"HardSigmoid", "LeakyRelu"}},
                 {"activation_alpha", std::vector<double>{0.4}}}}};
  for (const Form &form : forms) {
    int64_t d = form.directions, rows = form.gates * hidden;
    std::vector<Tensor> inputs = {draw.reals({steps, batch, size}), draw.reals({d, rows, size}),
                                  draw.reals({d, rows, hidden}), draw.reals({d, 2 * rows}),
                                  kAbsent, draw.reals({d, batch, hidden})};
    std::vector<size_t> wanted = {0, 1, 2, 3, 5};
    if (form.gates == 4) {
      inputs.push_back(draw.reals({d, batch, hidden}));
      wanted.push_back(6);
    }
    if (form.hasPeepholes) {
      inputs.push_back(draw.reals({d, 3 * hidden}));
      wanted.push_back(7);
    }
    checkComposedGradient({form.op, form.attributes, inputs, wanted});
    // One sequence ends early.
    inputs[4] = integers({batch}, {2, 3});
    checkComposedGradient({form.op, form.attributes, inputs, wanted});
  }
}

} // namespace pdc::test
