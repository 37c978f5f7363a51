#include "testsuite/kernels/UnitCase.h"

#include <gtest/gtest.h>

namespace pdc {

TEST(Kernels, MaxPoolingAndGradient) {
  for (int64_t channels : {16, 6, 40})
    for (auto [kernel, stride, pad, ceil] :
         {std::tuple{2, 2, 0, 0}, {3, 2, 1, 0}, {3, 2, 0, 1}, {5, 3, 2, 1}}) {
      UnitCase unit;
      Attributes attributes = {{"kernel_shape", std::vector<int64_t>{kernel, kernel}},
                               {"strides", std::vector<int64_t>{stride, stride}},
                               {"pads", std::vector<int64_t>(4, pad)},
                               {"ceil_mode", int64_t(ceil)}};
      std::vector<int64_t> shape = {2, channels, 9, 10};
      UnitValue y = unit.node("MaxPool", {unit.operand(shape)}, attributes, 2);
      unit.result(y);
      unit.result(UnitValue::node(y.index, 1));
      unit.check();

      UnitCase gradient(2);
      attributes.set("input_shape", shape);
      const UnitNode &forward = unit.view.nodes[0];
      UnitValue dy = gradient.operand(forward.outputs[0].shape);
      // The reference scatters by indices: those of the forward pass.
      std::vector<Tensor> results = unit.referenceOf(0);
      gradient.storedOperands = {{}, unit.stored[1]};
      gradient.node("MaxPoolGrad", {dy, gradient.given(results[1])}, attributes);
      gradient.check();
    }
}

TEST(Kernels, AveragePoolingAndGradient) {
  for (int64_t channels : {16, 6})
    for (int64_t counted : {0, 1})
      for (auto [kernel, stride, pad] : {std::tuple{2, 2, 0}, {3, 2, 1}}) {
        Attributes attributes = {{"kernel_shape", std::vector<int64_t>{kernel, kernel}},
                                 {"strides", std::vector<int64_t>{stride, stride}},
                                 {"pads", std::vector<int64_t>(4, pad)},
                                 {"count_include_pad", counted}};
        UnitCase unit;
        unit.node("AveragePool", {unit.operand({2, channels, 9, 9})}, attributes);
        unit.check();
        UnitCase gradient;
        attributes.set("input_shape", std::vector<int64_t>{2, channels, 9, 9});
        gradient.node("AveragePoolGrad", {gradient.operand(unit.view.nodes[0].outputs[0].shape)},
                      attributes);
        gradient.check();
      }
  UnitCase global, gradient;
  global.node("GlobalAveragePool", {global.operand({2, 33, 7, 7})});
  global.check();
  gradient.node("GlobalAveragePoolGrad", {gradient.operand({2, 33, 1, 1})},
                {{"input_shape", std::vector<int64_t>{2, 33, 7, 7}}});
  gradient.check();
}

} // namespace pdc
