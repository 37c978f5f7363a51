#include "compiler/operators/Rules.h"
#include "testsuite/operators/Tape.h"

namespace pdc::test {

using Shape = std::vector<int64_t>;

TEST(TransformerGradient, LayerNormalization) {
  Draw draw;
  struct Form {
    Shape x, scale;
    int64_t axis;
  };
  const Form forms[] = {{{2, 3, 4}, {4}, -1}, {{2, 3, 4}, {3, 4}, 1}, {{2, 3, 4}, {2, 3, 4}, 0},
                        {{5, 6}, {6}, 1},     {{2, 3, 4}, {1, 4}, 1}, {{3, 1, 7}, {1}, -1}};
  for (const Form &form : forms) {
    Attributes attributes = {{"axis", form.axis}, {"epsilon", 1e-3}};
    checkGradient({"LayerNormalization",
                   attributes,
                   {draw.reals(form.x), draw.reals(form.scale, 0.5, 2), draw.reals(form.scale)},
                   {0, 1, 2},
                   3});
    checkGradient({"LayerNormalization",
                   attributes,
                   {draw.reals(form.x), draw.reals(form.scale, 0.5, 2)},
                   {0, 1},
                   3});
    checkGradient({"RMSNormalization",
                   attributes,
                   {draw.reals(form.x), draw.reals(form.scale, 0.5, 2)},
                   {0, 1},
                   2});
  }
}

TEST(TransformerGradient, GroupNormalization) {
  Draw draw;
  for (const Shape &x : {Shape{2, 4, 3, 2}, {2, 6, 5}, {3, 8}})
    for (int64_t swish : {0, 1}) {
      Attributes attributes = {{"num_groups", int64_t(2)}, {"epsilon", 1e-2}, {"swish", swish}};
      const Shape channels = {x[1]};
      auto check = [&](std::vector<Tensor> inputs, std::vector<size_t> wanted) {
        checkGradient({"GroupNormalization", attributes, inputs, wanted, 3});
      };
      check({draw.reals(x), draw.reals(channels), draw.reals(channels)}, {0, 1, 2});
      check({draw.reals(x), draw.reals(channels)}, {0, 1});
      check({draw.reals(x)}, {0});
    }
}

TEST(TransformerGradient, GroupNormalizationRefuses) {
  Draw draw;
  auto refuses = [&](Shape x, Shape scale, int64_t groups) {
    Case test{
        "GroupNormalization", {{"num_groups", groups}}, {draw.reals(x), draw.reals(scale)}, {}, 3};
    EXPECT_THROW(run(test), Error);
  };
  refuses({2, 4, 3}, {4}, 3);
  refuses({2, 4, 3}, {4}, 0);
  refuses({2, 4, 3}, {3}, 2);
  refuses({2, 4, 0}, {4}, 2);
  refuses({4}, {4}, 2);
}

TEST(TransformerGradient, LayerNormalizationRefuses) {
  Draw draw;
  auto refuses = [&](Shape x, Shape scale, int64_t axis) {
    Case test{"LayerNormalization", {{"axis", axis}}, {draw.reals(x), draw.reals(scale)}, {}, 3};
    EXPECT_THROW(run(test), Error);
  };
  refuses({2, 3}, {3}, 2);
  refuses({2, 3}, {2}, 1);
  refuses({2, 3}, {2, 3}, 1);
  refuses({2, 0}, {0}, 1);
}

/// Heads that share keys, rows before and behind heads, other widths of values, and keys of a
/// cache.
static std::vector<Case> attentions(Draw &draw) {
  const Tensor absent = {{ElementType::f64, {0}}, {}};
  const Tensor random = {{ElementType::i64, {4}}, {7, 3, 11, 12}};
  Tensor seen{{ElementType::boolean, {3, 4}}, {1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1}};
  Attributes plain = {{"rows_first", Shape{0, 0, 0, 0}}, {"scale", 0.3}};
  Attributes turned = {{"rows_first", Shape{1, 0, 1, 1}}, {"scale", 0.7}};
  turned.set("is_causal", int64_t(1));
  turned.set("past", int64_t(1));
  Attributes dropping = turned;
  dropping.set("ratio", 0.3);
  dropping.set("key", int64_t(5));
  Tensor q = draw.reals({2, 4, 3, 2}), k = draw.reals({2, 2, 4, 2}), v = draw.reals({2, 2, 4, 3});
  Tensor qt = draw.reals({2, 3, 4, 2}), vt = draw.reals({2, 4, 2, 3});
  Attributes inTurn = plain;
  inTurn.set("masks", int64_t(2));
  Tensor four = draw.reals({4, 4, 3, 2}), k4 = draw.reals({4, 2, 4, 2}),
         v4 = draw.reals({4, 2, 4, 3});
  return {{"SoftmaxAttention", plain, {q, k, v}, {0, 1, 2}, 2},
          {"SoftmaxAttention", plain, {q, k, v, seen}, {0, 1, 2}, 2},
          {"SoftmaxAttention", plain, {q, k, v, draw.reals({4, 1, 4})}, {0, 1, 2, 3}, 2},
          {"SoftmaxAttention", plain, {q, k, v, draw.reals({2, 1, 3, 1})}, {0, 1, 2, 3}, 2},
          {"SoftmaxAttention", inTurn, {four, k4, v4, draw.reals({2, 4, 3, 4})}, {0, 1, 2, 3}, 2},
          {"SoftmaxAttention", turned, {qt, k, vt}, {0, 1, 2}, 2},
          {"SoftmaxAttention", dropping, {qt, k, vt, absent, random}, {0, 1, 2}, 2},
          {"SoftmaxAttention", dropping, {qt, k, vt, draw.reals({3, 4}), random}, {0, 1, 2, 3}, 2}};
}

/// Operands behind one another, head by head, in one tensor.
static Tensor joined(const std::vector<Tensor> &parts, size_t heads) {
  std::vector<int64_t> shape = parts[0].type.shape;
  for (size_t i = 1; i < parts.size(); ++i)
    shape[heads] += parts[i].type.shape[heads];
  Tensor whole = Tensor::zeros({ElementType::f64, shape});
  const int64_t step = product(shape, static_cast<int64_t>(heads));
  int64_t before = 0;
  for (const Tensor &part : parts) {
    const int64_t of = product(part.type.shape, static_cast<int64_t>(heads));
    for (size_t e = 0; e < part.data.size(); ++e)
      whole.data[size_t(int64_t(e) / of * step + before + int64_t(e) % of)] = part.data[e];
    before += of;
  }
  return whole;
}

/// Keys and values, or queries too, in one tensor are those that stand alone: results and, joined
/// alike, gradients.
TEST(TransformerGradient, AttentionOfOneTensor) {
  Draw draw;
  const Tensor absent = {{ElementType::f64, {0}}, {}};
  for (int64_t rowsFirst : {0, 1, 2}) {
    auto reals = [&](int64_t heads, int64_t rows) {
      const Shape shapes[] = {{2, heads, rows, 3}, {2, rows, heads, 3}, {rows, 2, heads, 3}};
      return draw.reals(shapes[rowsFirst]);
    };
    const size_t heads = rowsFirst ? 2 : 1;
    Attributes apart = {
        {"rows_first", Shape(4, rowsFirst)}, {"scale", 0.7}, {"is_causal", int64_t(1)}};
    Attributes all = apart;
    all.set("key_heads", int64_t(2));
    const Tensor q = reals(4, 5), k = reals(2, 5), v = reals(2, 5);
    const Tensor mask = draw.reals({5, 5});
    const Tensor pair = joined({k, v}, heads), whole = joined({q, k, v}, heads);
    const std::vector<Tensor> expected =
        tapeValues({"SoftmaxAttention", apart, {q, k, v, mask}, {}, 2});
    auto expectEqual = [](const Tensor &found, const Tensor &wanted) {
      ASSERT_EQ(found.type.shape, wanted.type.shape);
      for (size_t i = 0; i < wanted.data.size(); ++i)
        EXPECT_DOUBLE_EQ(found.data[i], wanted.data[i]);
    };
    expectEqual(tapeValues({"SoftmaxAttention", apart, {q, pair, absent, mask}, {}, 2})[0],
                expected[0]);
    expectEqual(tapeValues({"SoftmaxAttention", all, {whole, absent, absent, mask}, {}, 2})[0],
                expected[0]);
    const Tensor dy = draw.reals(expected[0].type.shape);
    const Tensor &y = expected[0], &sums = expected[1];
    const std::vector<Tensor> gradients =
        tapeValues({"SoftmaxAttentionGrad", apart, {dy, q, k, v, y, sums, mask}, {}, 4});
    const std::vector<Tensor> ofPair =
        tapeValues({"SoftmaxAttentionGrad", apart, {dy, q, pair, absent, y, sums, mask}, {}, 3});
    const std::vector<Tensor> ofWhole = tapeValues(
        {"SoftmaxAttentionGrad", all, {dy, whole, absent, absent, y, sums, mask}, {}, 2});
    expectEqual(ofPair[0], gradients[0]);
    expectEqual(ofPair[1], joined({gradients[1], gradients[2]}, heads));
    expectEqual(ofPair[2], gradients[3]);
    expectEqual(ofWhole[0], joined({gradients[0], gradients[1], gradients[2]}, heads));
    expectEqual(ofWhole[1], gradients[3]);
    checkComposedGradient({"SoftmaxAttention", all, {whole, absent, absent, mask}, {0, 3}, 2},
                          1e-5);
    checkComposedGradient({"SoftmaxAttention", apart, {q, pair, absent, mask}, {0, 1, 3}, 2}, 1e-5);
  }
}

TEST(TransformerGradient, Attention) {
  Draw draw;
  for (const Case &test : attentions(draw))
    checkComposedGradient(test, 1e-5);
  checkGradient(attentions(draw)[0], 1e-5);
}

/// The same as ONNX's Attention, which is composed of products and softmax.
TEST(TransformerGradient, AttentionIsOnnxs) {
  Draw draw;
  const Tensor q = draw.reals({2, 4, 3, 2}), k = draw.reals({2, 2, 4, 2});
  const Tensor v = draw.reals({2, 2, 4, 3}), mask = draw.reals({2, 1, 3, 4});
  for (int64_t causal : {0, 1}) {
    Attributes onnx = {{"scale", 0.3}, {"is_causal", causal}}, whole = onnx;
    whole.set("rows_first", Shape{0, 0, 0, 0});
    const Tensor expected = tapeValue({"Attention", onnx, {q, k, v, mask}, {}});
    const Tensor found = run({"SoftmaxAttention", whole, {q, k, v, mask}, {}, 2})[0];
    for (size_t i = 0; i < expected.data.size(); ++i)
      EXPECT_NEAR(found.data[i], expected.data[i], 1e-12);
  }
}

TEST(TransformerGradient, AttentionRefuses) {
  Draw draw;
  auto refuses = [&](Shape q, Shape k, Shape v, Shape mask, int64_t past = 0, int64_t masks = 0) {
    Attributes plain = {{"rows_first", Shape{0, 0, 0, 0}}, {"past", past}, {"masks", masks}};
    EXPECT_THROW(run({"SoftmaxAttention",
                      plain,
                      {draw.reals(q), draw.reals(k), draw.reals(v), draw.reals(mask)},
                      {},
                      2}),
                 Error);
  };
  refuses({2, 3, 4}, {2, 3, 4}, {2, 3, 4}, {4});
  refuses({1, 3, 4, 2}, {1, 2, 4, 2}, {1, 2, 4, 2}, {4});
  refuses({1, 3, 4, 2}, {1, 3, 5, 2}, {1, 3, 4, 2}, {5});
  refuses({1, 3, 4, 2}, {1, 3, 5, 2}, {1, 3, 5, 2}, {4, 4});
  refuses({1, 3, 4, 2}, {1, 3, 5, 2}, {1, 3, 5, 2}, {5}, -1);
  // Masks in turn that are not told of, or are others than those, or no divisor of the samples.
  refuses({4, 1, 4, 2}, {4, 1, 5, 2}, {4, 1, 5, 2}, {2, 1, 4, 5});
  refuses({4, 1, 4, 2}, {4, 1, 5, 2}, {4, 1, 5, 2}, {4, 1, 4, 5}, 0, 2);
  refuses({3, 1, 4, 2}, {3, 1, 5, 2}, {3, 1, 5, 2}, {2, 1, 4, 5}, 0, 2);
  refuses({3, 1, 4, 2}, {3, 1, 5, 2}, {3, 1, 5, 2}, {3, 1, 4, 5}, 0, -3);
  refuses({4, 1, 4, 2}, {4, 1, 5, 2}, {4, 1, 5, 2}, {1, 1, 4, 5}, 0, 2);
  refuses({4, 1, 4, 2}, {4, 1, 5, 2}, {4, 1, 5, 2}, {4, 5}, 0, 2);
  // Heads of keys that leave none to queries, of one tensor.
  for (int64_t keyHeads : {-1, 0, 2, 3, 4}) {
    Attributes joined = {{"rows_first", Shape{0, 0, 0, 0}}, {"key_heads", keyHeads}};
    EXPECT_THROW(tapeValues({"SoftmaxAttention", joined, {draw.reals({1, 4, 3, 2})}, {}, 2}),
                 Error);
  }
}

/// The check's gradient arrives at the first part only: the others leave zeros.
TEST(TransformerGradient, Split) {
  Draw draw;
  for (int64_t axis : {0, 1, -1}) {
    Shape shape = {4, 6, 2};
    int64_t size = shape[axis < 0 ? axis + 3 : axis];
    checkGradient(
        {"Split", {{"axis", axis}}, {draw.reals(shape), Tensor::vector({size - 1, 1})}, {0}, 2});
  }
}

} // namespace pdc::test
