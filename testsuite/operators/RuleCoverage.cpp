#include "compiler/operators/Composition.h"
#include "testsuite/operators/GradientCheck.h"

namespace pdc::test {

/// Composed operators through which no gradient goes: of places, of constants, of updates, of
/// random numbers, of whole numbers (CumSum, Div, MatMul, Mod and reductions); and Upsample, which
/// is read as Resize.
static const OperatorNames kWithoutGradient = {"ArgMax",
                                               "ArgMin",
                                               "Bernoulli",
                                               "BlackmanWindow",
                                               "ConstantOfShape",
                                               "CumSum",
                                               "Div",
                                               "EyeLike",
                                               "HammingWindow",
                                               "HannWindow",
                                               "Hardmax",
                                               "MatMul",
                                               "Mod",
                                               "RandomNormal",
                                               "RandomNormalLike",
                                               "RandomUniform",
                                               "RandomUniformLike",
                                               "ReduceMax",
                                               "ReduceProd",
                                               "ReduceSum",
                                               "Upsample",
                                               "ai.onnx.preview.training.Adagrad",
                                               "ai.onnx.preview.training.Adam",
                                               "ai.onnx.preview.training.Momentum",
                                               "pdc.SelectedPlaces"};

/// A rule without a test would be a belief.
class EveryRuleIsTested : public testing::Environment {
public:
  void TearDown() override {
    const testing::UnitTest &tests = *testing::UnitTest::GetInstance();
    if (tests.test_to_run_count() < tests.total_test_count())
      return;
    for (const Operator *op : allOperators()) {
      EXPECT_EQ(op->differentiate != nullptr, checkedRules().contains(op->name)) << op->name;
      if (!findComposition(op->name))
        continue;
      EXPECT_NE(kWithoutGradient.contains(op->name), checkedCompositions().contains(op->name))
          << op->name << " is composed of others: check its gradient, or say that it has none";
    }
  }
};

static testing::Environment *const everyRule =
    testing::AddGlobalTestEnvironment(new EveryRuleIsTested);

} // namespace pdc::test
