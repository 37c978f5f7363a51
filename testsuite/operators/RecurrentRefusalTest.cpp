#include "compiler/operators/Rules.h"
#include "testsuite/Refusal.h"
#include "testsuite/operators/GradientCheck.h"

#include <gmock/gmock.h>

namespace pdc::test {

using testing::HasSubstr;

namespace {

/// A node whose other inputs are left out.
struct Recurrent {
  const char *op;
  size_t outputs;
  Attributes attributes;
  std::map<size_t, Tensor> inputs;

  std::string refused() const {
    std::vector<const Tensor *> all(inputs.rbegin()->first + 1);
    for (const auto &[number, value] : inputs)
      all[number] = &value;
    return pdc::refusal([&] { run(op, attributes, all, outputs); });
  }
  std::string refused(size_t input, const Tensor &value) const {
    Recurrent changed = *this;
    changed.inputs[input] = value;
    return changed.refused();
  }
  std::string refused(const char *attribute, const Attribute &value) const {
    Recurrent changed = *this;
    changed.attributes.set(attribute, value);
    return changed.refused();
  }
};

/// 3 steps of 2 samples of 4 numbers, 2 states.
Recurrent makeNode(const char *op, int64_t gates, size_t outputs) {
  Draw draw;
  return {op,
          outputs,
          {},
          {{0, draw.reals({3, 2, 4})},
           {1, draw.reals({1, 2 * gates, 4})},
           {2, draw.reals({1, 2 * gates, 2})}}};
}
const Recurrent gru = makeNode("GRU", 3, 2), lstm = makeNode("LSTM", 4, 3);

} // namespace

TEST(RecurrentRefusals, OfWeights) {
  Draw draw;
  EXPECT_EQ(gru.refused(), "accepted");
  EXPECT_EQ(lstm.refused(), "accepted");
  EXPECT_THAT(gru.refused(1, draw.reals({2, 6, 4})), HasSubstr("expected [1,6,4] and [1,6,2]"));
  EXPECT_THAT(gru.refused(2, draw.reals({})),
              HasSubstr("expected a sequence of batches of vectors"));
  EXPECT_THAT(gru.refused(1, integers({1, 6, 4}, std::vector<double>(24, 1))),
              HasSubstr("expected one element type"));
}

TEST(RecurrentRefusals, OfBiasesAndStates) {
  Draw draw;
  for (const Shape &shape : {Shape{}, {12}, {1, 6}, {1, 18}, {2, 12}, {1, 12, 1}})
    EXPECT_THAT(gru.refused(3, draw.reals(shape)), HasSubstr("(B) is ")) << shapeText(shape);
  for (const Shape &shape : {Shape{}, {2, 2}, {1, 1, 2}, {2, 2, 2}, {1, 2, 3}})
    EXPECT_THAT(gru.refused(5, draw.reals(shape)), HasSubstr("(initial_h) is "))
        << shapeText(shape);
  EXPECT_EQ(gru.refused(3, draw.reals({1, 12})), "accepted");
  EXPECT_EQ(gru.refused(5, draw.reals({1, 2, 2})), "accepted");
  EXPECT_THAT(lstm.refused(6, draw.reals({})),
              HasSubstr("input 6 (initial_c) is f64[], expected f64[1,2,2] for 1 direction of 2 "
                        "states"));
  EXPECT_THAT(lstm.refused(7, draw.reals({3, 6})),
              HasSubstr("input 7 (P) is f64[3,6], expected f64[1,6]"));
}

TEST(RecurrentRefusals, OfLengths) {
  EXPECT_THAT(gru.refused(4, Draw().reals({2})), HasSubstr("expected 2 lengths as integers"));
  EXPECT_THAT(gru.refused(4, integers({3}, {1, 1, 1})), HasSubstr("expected 2 lengths"));
  EXPECT_THAT(gru.refused(4, integers({2}, {1, 9})),
              HasSubstr("has length 9 at 1, expected 0 to 3"));
  EXPECT_EQ(gru.refused(4, integers({2}, {0, 3})), "accepted");
}

TEST(RecurrentRefusals, OfAttributes) {
  EXPECT_THAT(gru.refused("direction", std::string("sideways")),
              HasSubstr("direction 'sideways', expected forward, reverse or bidirectional"));
  EXPECT_THAT(gru.refused("direction", std::string("bidirectional")),
              HasSubstr("for 2 directions of 2 states, expected [2,6,4] and [2,6,2]"));
  EXPECT_THAT(gru.refused("hidden_size", int64_t(1) << 62), HasSubstr("expected as many states"));
  EXPECT_THAT(gru.refused("layout", int64_t(7)), HasSubstr("layout 7, expected 0 or 1"));
  const std::vector<std::string> three(3, "Tanh");
  EXPECT_THAT(gru.refused("activations", three), HasSubstr("has 3 names, expected 2"));
  EXPECT_THAT(gru.refused("activations", std::vector<int64_t>{1, 2}), HasSubstr("has no names"));
  EXPECT_THAT(gru.refused("clip", -1.0), HasSubstr("expected a positive number"));
}

TEST(RecurrentRefusals, OfActivations) {
  auto refused = [](std::vector<std::string> names, std::vector<double> alphas) {
    Recurrent changed = gru;
    changed.attributes.set("activations", names);
    changed.attributes.set("activation_alpha", alphas);
    return changed.refused();
  };
  EXPECT_THAT(refused({"Sigmoid", "Swish"}, {}), HasSubstr("'Swish' is not known, expected one of "
                                                           "Affine, Elu, HardSigmoid, "));
  EXPECT_THAT(refused({"Sigmoid", "Affine"}, {}),
              HasSubstr("'activation_alpha' has no number for activation 'Affine'"));
  EXPECT_EQ(refused({"HardSigmoid", "Tanh"}, {0.2, 0.3}), "accepted");
  EXPECT_EQ(refused({"HardSigmoid", "Elu"}, {0.2}), "accepted");
}

} // namespace pdc::test
