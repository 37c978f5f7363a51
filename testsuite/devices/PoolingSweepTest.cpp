#include "testsuite/devices/DrawnCase.h"

#include <gtest/gtest.h>

/// Whatever pooling the compiler accepts runs, and computes what the operators' references do.
namespace pdc {

namespace {

using Integers = std::vector<int64_t>;

struct Case {
  Integers shape;
  Attributes window;
};

Case draw(Draw &draw) {
  int64_t rank = 1 + draw.below(3), most = rank == 1 ? 40 : rank == 2 ? 18 : 7;
  Case drawn{{1 + draw.below(3), 1 + draw.below(35)}, {}};
  Integers kernel, strides, begin, end;
  for (int64_t d = 0; d < rank; ++d) {
    kernel.push_back(1 + draw.below(draw.flag() ? 3 : most));
    strides.push_back(1 + draw.below(3));
    begin.push_back(draw.flag() ? 0 : draw.below(kernel[d]));
    end.push_back(draw.flag() ? begin[d] : draw.below(kernel[d]));
    drawn.shape.push_back(1 + draw.below(most));
  }
  begin.insert(begin.end(), end.begin(), end.end());
  drawn.window = {{"kernel_shape", kernel}, {"strides", strides}, {"pads", begin}};
  drawn.window.set("ceil_mode", draw.below(2));
  return drawn;
}

std::string textOf(const Case &c, const DeviceOptions &options) {
  std::string text;
  auto add = [&](const char *name, const Integers &values) {
    text += std::string(" ") + name;
    for (int64_t value : values)
      text += " " + std::to_string(value);
  };
  add("input", c.shape);
  for (const char *name : {"kernel_shape", "strides", "pads"})
    add(name, c.window.integers(name));
  add("ceil_mode, count_include_pad",
      {c.window.integer("ceil_mode", 0), c.window.integer("count_include_pad", 0)});
  add("width, threads", {options.vectorWidth, options.threads});
  return text;
}

/// The gradient reads the positions that the forward pass wrote.
void checkMaximum(const Case &c, const DeviceOptions &options) {
  UnitCase unit, gradient(2);
  unit.options = gradient.options = options;
  UnitValue y = unit.node("MaxPool", {unit.operand(c.shape)}, c.window, 2);
  unit.result(y);
  unit.result(UnitValue::node(y.index, 1));
  unit.check();
  if (testing::Test::HasFailure())
    return;
  Attributes attributes = c.window;
  attributes.set("input_shape", c.shape);
  const std::vector<Tensor> &results = unit.referenceOf(0);
  UnitValue dy = gradient.operand(results[0].type.shape);
  gradient.storedOperands = {{}, unit.stored[1]};
  gradient.node("MaxPoolGrad", {dy, gradient.given(results[1])}, attributes);
  gradient.check();
}

void checkMean(const Case &c, const DeviceOptions &options) {
  UnitCase unit, gradient;
  unit.options = gradient.options = options;
  UnitValue y = unit.node("AveragePool", {unit.operand(c.shape)}, c.window);
  unit.check();
  Attributes attributes = c.window;
  attributes.set("input_shape", c.shape);
  gradient.node("AveragePoolGrad", {gradient.operand(unit.referenceOf(y.index)[0].type.shape)},
                attributes);
  gradient.check();
}

} // namespace

TEST(PoolingSweep, AnyWindow) {
  Draw random(3);
  int ran = 0;
  for (int i = 0; i < 1500; ++i) {
    Case c = draw(random);
    DeviceOptions options = random.device();
    bool isMaximum = random.flag();
    if (!isMaximum)
      c.window.set("count_include_pad", random.below(2));
    auto done = unlessRefused([&] {
      isMaximum ? checkMaximum(c, options) : checkMean(c, options);
      return true;
    });
    ASSERT_FALSE(HasFailure()) << (isMaximum ? "maximum" : "mean") << textOf(c, options);
    ran += done.has_value();
  }
  EXPECT_GT(ran, 500);
}

} // namespace pdc
