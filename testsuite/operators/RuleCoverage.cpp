#include "testsuite/operators/GradientCheck.h"

namespace pdc::test {

/// A rule without a test would be a belief.
class EveryRuleIsTested : public testing::Environment {
public:
  void TearDown() override {
    const testing::UnitTest &tests = *testing::UnitTest::GetInstance();
    if (tests.test_to_run_count() < tests.total_test_count())
      return;
    for (const Operator *op : allOperators())
      EXPECT_EQ(op->differentiate != nullptr, checkedRules().contains(op->name)) << op->name;
  }
};

static testing::Environment *const everyRule =
    testing::AddGlobalTestEnvironment(new EveryRuleIsTested);

} // namespace pdc::test
