#include "testsuite/operators/Tape.h"

/// Operators of operator sets 18 to 28 that are composed of others: gradients by finite
/// differences. PyTorch's values are in end-to-end/test_newest_operators.py.
namespace pdc::test {

TEST(NewestForms, AttentionOfWhatIsSeen) {
  Draw draw;
  const Tensor q = draw.reals({2, 2, 3, 4}), k = draw.reals({2, 2, 5, 4}),
               v = draw.reals({2, 2, 5, 2});
  const Tensor mask = flags({3, 5}, {1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1});
  checkComposedGradient({"Attention", {}, {q, k, v, mask}, {0, 1, 2}}, 1e-5);
  const Tensor narrow = flags({3, 4}, {1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1});
  checkComposedGradient({"Attention", {{"softcap", 0.7}}, {q, k, v, narrow}, {0, 1, 2}}, 1e-5);
  const Tensor counts = integers({2}, {4, 1});
  for (int64_t causal : {0, 1})
    checkComposedGradient({"Attention",
                           {{"is_causal", causal}, {"left_window_size", int64_t(1)}},
                           {q, k, v, kAbsent, kAbsent, kAbsent, counts},
                           {0, 1, 2}},
                          1e-5);
}

/// A query that sees no key gets nothing, and gives nothing to what it was made of.
TEST(NewestForms, AttentionOfNothing) {
  Draw draw;
  const Tensor q = draw.reals({1, 1, 2, 3}), k = draw.reals({1, 1, 3, 3}),
               v = draw.reals({1, 1, 3, 2});
  const Tensor none = flags({2, 3}, {0, 0, 0, 0, 1, 0});
  EXPECT_EQ(tapeValue({"Attention", {}, {q, k, v, none}, {}}).data,
            (std::vector<double>{0, 0, v.data[2], v.data[3]}));
  const Tensor counts = integers({1}, {1});
  EXPECT_EQ(tapeValue({"Attention",
                       {{"is_causal", int64_t(1)}},
                       {q, k, v, kAbsent, kAbsent, kAbsent, counts},
                       {}})
                .data,
            (std::vector<double>{0, 0, v.data[0], v.data[1]}));
}

TEST(NewestForms, Gates) {
  Draw draw;
  checkComposedGradient({"Swish", {{"alpha", 1.7}}, {draw.reals({3, 4})}, {0}});
  for (double alpha : {1.0, 0.5})
    checkComposedGradient(
        {"SwiGLU", {{"alpha", alpha}}, {draw.reals({3, 4}), draw.reals({3, 4})}, {0, 1}});
}

TEST(NewestForms, CausalConvolution) {
  Draw draw;
  const Tensor x = draw.reals({2, 3, 5}), weight = draw.reals({3, 1, 3}), bias = draw.reals({3});
  for (const char *activation : {"none", "silu"})
    for (const Tensor &past : {kAbsent, draw.reals({2, 3, 2})}) {
      std::vector<size_t> wanted = {0, 1, 2};
      if (past.type.rank() == 3)
        wanted.push_back(3);
      checkComposedGradient({"CausalConvWithState",
                             {{"activation", std::string(activation)}},
                             {x, weight, bias, past},
                             wanted},
                            1e-5);
    }
}

/// Chunks that divide the steps or not, groups of queries, decays of a head or of each element.
TEST(NewestForms, LinearAttention) {
  Draw draw;
  const int64_t batch = 2, steps = 7, heads = 2, width = 3, across = 2;
  for (const char *rule : {"linear", "gated", "delta", "gated_delta"})
    for (int64_t group : {1, 2})
      for (int64_t chunk : {3, 8}) {
        const bool decays = std::string_view(rule).starts_with("gated"),
                   corrects = std::string_view(rule).ends_with("delta"),
                   isEach = group == chunk % 3;
        const Attributes attributes = {{"update_rule", std::string(rule)},
                                       {"q_num_heads", heads * group},
                                       {"kv_num_heads", heads},
                                       {"chunk_size", chunk}};
        std::vector<Tensor> inputs = {
            draw.reals({batch, steps, heads * group * width}),
            draw.reals({batch, steps, heads * width}),
            draw.reals({batch, steps, heads * across}),
            draw.reals({batch, heads, width, across}),
            decays ? draw.reals({batch, steps, heads * (isEach ? width : 1)}, -1, 0) : kAbsent,
            corrects ? draw.reals({batch, steps, chunk == 3 ? heads : 1}, 0, 1) : kAbsent};
        std::vector<size_t> wanted = {0, 1, 2, 3};
        if (decays)
          wanted.push_back(4);
        if (corrects)
          wanted.push_back(5);
        SCOPED_TRACE(rule);
        checkComposedGradient({"LinearAttention", attributes, inputs, wanted}, 1e-5);
      }
}

/// With zeros, of which quotients would know nothing.
TEST(NewestForms, Products) {
  Draw draw;
  Tensor x = draw.reals({2, 6, 2});
  x.data[4] = x.data[15] = x.data[19] = 0;
  for (int64_t exclusive : {0, 1})
    for (int64_t reverse : {0, 1}) {
      const Attributes attributes = {{"exclusive", exclusive}, {"reverse", reverse}};
      for (int64_t axis : {0, 1, -1})
        checkComposedGradient(
            {"CumProd", attributes, {x, Tensor::scalar(ElementType::i64, double(axis))}, {0}},
            1e-5);
    }
  const Tensor whole = integers({5}, {2, -3, 1, 4, 5}), axis = Tensor::scalar(ElementType::i64, 0);
  auto productsOf = [&](int64_t exclusive, int64_t reverse) {
    const Attributes attributes = {{"exclusive", exclusive}, {"reverse", reverse}};
    return tapeValue({"CumProd", attributes, {whole, axis}, {}}).data;
  };
  EXPECT_EQ(productsOf(0, 0), (std::vector<double>{2, -6, -6, -24, -120}));
  EXPECT_EQ(productsOf(1, 0), (std::vector<double>{1, 2, -6, -6, -24}));
  EXPECT_EQ(productsOf(1, 1), (std::vector<double>{-60, 20, 20, 5, 1}));
}

TEST(NewestForms, Places) {
  Draw draw;
  checkComposedGradient({"CenterCropPad",
                         {{"axes", std::vector<int64_t>{-1, 0}}},
                         {draw.reals({5, 2, 3}), Tensor::vector({6, 2})},
                         {0}});
  checkComposedGradient({"CenterCropPad", {}, {draw.reals({2, 5}), Tensor::vector({4, 2})}, {0}});
  const Tensor chosen = flags({3}, {0, 1, 1});
  checkComposedGradient(
      {"Compress", {{"axis", int64_t(-2)}}, {draw.reals({2, 4, 3}), chosen}, {0}});
  checkComposedGradient({"Compress", {}, {draw.reals({2, 3}), chosen}, {0}});
  for (int64_t time : {0, 1})
    checkComposedGradient({"ReverseSequence",
                           {{"time_axis", time}, {"batch_axis", 1 - time}},
                           {draw.reals({3, 3, 2}), integers({3}, {2, 3, 1})},
                           {0}});
  for (const char *mode : {"linear", "circular"})
    checkComposedGradient({"TensorScatter",
                           {{"mode", std::string(mode)}},
                           {draw.reals({2, 3, 4, 2}), draw.reals({2, 3, 2, 2}),
                            integers({2}, {mode[0] == 'c' ? 3.0 : 1.0, 0})},
                           {0, 1}});
  checkComposedGradient(
      {"AffineGrid", {}, {draw.reals({2, 2, 3}), Tensor::vector({2, 1, 3, 4})}, {0}});
  checkComposedGradient({"AffineGrid",
                         {{"align_corners", int64_t(1)}},
                         {draw.reals({2, 3, 4}), Tensor::vector({2, 1, 2, 3, 1})},
                         {0}});
  checkComposedGradient({"SpaceToDepth",
                         {{"blocksize", int64_t(2)}, {"mode", std::string("CRD")}},
                         {draw.reals({1, 3, 4, 2})},
                         {0}});
}

/// A line of zeros stays one; what it stands for has no direction, and no gradient but its own.
TEST(NewestForms, NormOfZeros) {
  for (int64_t p : {1, 2}) {
    Tensor x{{ElementType::f64, {2, 3}}, {0, 0, 0, 3, 0, -4}};
    const double size = p == 1 ? 7 : 5;
    EXPECT_EQ(tapeValue({"LpNormalization", {{"p", p}}, {x}, {}}).data,
              (std::vector<double>{0, 0, 0, 3 / size, 0, -4 / size}));
  }
  Draw draw;
  checkComposedGradient({"LpNormalization", {{"axis", int64_t(0)}}, {draw.reals({3, 2})}, {0}});
}

/// PyTorch's remainder has the divisor's sign, also where that is infinite (ONNX Mod, opset 28).
TEST(NewestForms, RemaindersOfInfinity) {
  const double infinity = std::numeric_limits<double>::infinity();
  Tensor a{{ElementType::f64, {6}}, {5, -5, 5, -5, -0.5, 7}},
      b{{ElementType::f64, {6}}, {infinity, infinity, -infinity, -infinity, 0.3, -2}};
  std::vector<double> found = tapeValue({"Mod", {{"fmod", int64_t(0)}}, {a, b}, {}}).data;
  const std::vector<double> expected = {5, infinity, -infinity, -5, -0.5 + 2 * 0.3, -1};
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_DOUBLE_EQ(found[i], expected[i]);
}

TEST(NewestForms, AxesThatAreNotThere) {
  Draw draw;
  const Tensor cache = draw.reals({2, 3, 4, 2});
  for (int64_t axis : {4, -5, 0})
    EXPECT_THROW(tapeValue({"TensorScatter", {{"axis", axis}}, {cache, cache}, {}}), Error);
  for (const std::vector<int64_t> &axes : {std::vector<int64_t>{0, -4}, {1, 4}})
    EXPECT_THROW(
        tapeValue({"CenterCropPad", {{"axes", axes}}, {cache, Tensor::vector({2, 3})}, {}}), Error);
  EXPECT_THROW(tapeValue({"CumProd", {}, {cache, Tensor::scalar(ElementType::i64, 4)}, {}}), Error);
  const Tensor chosen = flags({2}, {1, 0});
  EXPECT_THROW(tapeValue({"Compress", {{"axis", int64_t(-5)}}, {cache, chosen}, {}}), Error);
}

} // namespace pdc::test
