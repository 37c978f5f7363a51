#include "runtime/Error.h"
#include "runtime/kernels/SgdUpdate.h"
#include "testsuite/kernels/UnitCase.h"

#include <gtest/gtest.h>

#include <limits>
#include <tuple>
#include <vector>

namespace pdc {
namespace {

/// Weights in the order of the file and of a convolution's blocks, at the first step and a later
/// one.
class Updates : public ::testing::TestWithParam<std::tuple<const char *, double>> {
protected:
  /// Drawn from `from` to 1: a sum of squares is not negative.
  static UnitValue tensor(UnitCase &unit, double from = -1) {
    return unit.operand({20, 18, 3, 3}, from, 1, std::get<0>(GetParam()));
  }

  /// The weight, its gradient and such states, then the scalars.
  static std::vector<UnitValue> operands(UnitCase &unit, std::vector<UnitValue> states,
                                         bool readsStep = true) {
    std::vector<UnitValue> all = {tensor(unit), tensor(unit)};
    all.insert(all.end(), states.begin(), states.end());
    for (double scalar : {0.25, 0.1}) // of gradients, and the learning rate
      all.push_back(unit.given(Tensor::scalar(ElementType::f32, scalar)));
    if (readsStep)
      all.push_back(unit.given(Tensor::scalar(ElementType::f32, std::get<1>(GetParam()))));
    return all;
  }

  static void check(UnitCase &unit, UnitValue node, int results) {
    for (int r = 0; r < results; ++r)
      unit.result(UnitValue::node(node.index, r));
    unit.check();
  }
};

TEST_P(Updates, Sgd) {
  UnitCase unit;
  unit.node("SgdUpdate", operands(unit, {}, false), {{"weight_decay", 0.01}});
  unit.check();
}

TEST_P(Updates, Momentum) {
  for (int64_t nesterov : {0, 1})
    for (double firstStep : {1.0, 2.0}) {
      UnitCase unit;
      const UnitValue node = unit.node("MomentumUpdate", operands(unit, {tensor(unit)}),
                                       {{"weight_decay", 0.01},
                                        {"momentum", 0.9},
                                        {"dampening", 0.1},
                                        {"nesterov", nesterov},
                                        {"first_step", firstStep}},
                                       2);
      check(unit, node, 2);
    }
}

TEST_P(Updates, Adagrad) {
  UnitCase unit;
  const UnitValue node = unit.node(
      "AdagradUpdate", operands(unit, {tensor(unit, 0.1)}),
      {{"weight_decay", 0.01}, {"lr_decay", 0.1}, {"epsilon", 1e-6}, {"first_step", 2.0}}, 2);
  check(unit, node, 2);
}

TEST_P(Updates, Adam) {
  for (int64_t decoupled : {0, 1, 2, 3})
    for (int64_t scaledEpsilon : {0, 1}) {
      UnitCase unit;
      const UnitValue node =
          unit.node("AdamUpdate", operands(unit, {tensor(unit), tensor(unit, 0.1)}),
                    {{"weight_decay", 0.01},
                     {"beta1", 0.9},
                     {"beta2", 0.999},
                     {"epsilon", 1e-8},
                     {"decoupled", decoupled},
                     {"first_step", scaledEpsilon ? 0.0 : 1.0},
                     {"post_decay", 0.01},
                     {"scaled_epsilon", scaledEpsilon}},
                    3);
      check(unit, node, 3);
    }
}

/// Wherever it lies of more elements than are looked at together.
TEST(BrokenUpdates, AreToldOf) {
  using namespace runtime;
  const int64_t count = (1 << 19) + 5;
  const float scale = 1, rate = 0.1f;
  for (int64_t place : {int64_t(0), int64_t(1) << 18, count - 1}) {
    std::vector<float> weights(count, 1), gradients(count, 1);
    int lost = 0;
    runtime::Run run;
    run.lost = &lost;
    const SgdUpdate update(Device(), {.count = count});
    auto step = [&] {
      update(run, weights.data(), gradients.data(), &scale, &rate, weights.data());
    };
    step();
    EXPECT_EQ(weights[place], 0.9f);
    EXPECT_EQ(lost, 0);
    gradients[place] = std::numeric_limits<float>::quiet_NaN();
    step();
    EXPECT_EQ(lost, 1) << "element " << place;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Updates,
                         ::testing::Combine(::testing::Values("", "ABcd16b16a"),
                                            ::testing::Values(1.0, 7.0)));

} // namespace
} // namespace pdc
