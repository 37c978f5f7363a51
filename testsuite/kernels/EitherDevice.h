#pragma once

#include "testsuite/kernels/UnitCase.h"

/// What the kernels of each device are held to alike: `Case` is a UnitCase for the device.
namespace pdc {

/// Forward with and without what the backward pass reads, and the gradients of rows that keep their
/// mean.
template <class Case> void expectRootMeanSquare() {
  const Attributes attributes = {{"axis", int64_t(-1)}, {"epsilon", 1e-3}};
  for (int64_t size : {7, 33, 1500})
    for (int results : {1, 2}) {
      Case forward, input, scale;
      forward.node("RMSNormalization",
                   {forward.operand({2, 5, size}, 1, 2), forward.operand({size})}, attributes, 2);
      for (int slot = 0; slot < results; ++slot)
        forward.result(UnitValue::node(0, slot));
      forward.check(1e-5);
      auto rows = [&](UnitCase &u) { return u.operand({2, 5, size}); };
      auto inverse = [](UnitCase &u) { return u.operand({2, 5, 1}, 1, 2); };
      input.node("LayerNormalizationInputGrad",
                 {rows(input), rows(input), input.operand({size}), UnitValue(), inverse(input)},
                 attributes);
      input.check(1e-5);
      Attributes forScale = attributes;
      forScale.set("scale_shape", std::vector<int64_t>{size});
      scale.node("LayerNormalizationScaleGrad",
                 {rows(scale), rows(scale), UnitValue(), inverse(scale)}, forScale);
      scale.check(1e-5);
    }
}

/// Small integers: many elements are equal.
template <class Case> void expectAlongAnAxis() {
  Tensor x = Tensor::zeros({ElementType::f32, {3, 7, 5}});
  for (size_t i = 0; i < x.data.size(); ++i)
    x.data[i] = static_cast<double>(i * 37 % 11);
  for (int64_t axis : {0, 1, -1})
    for (int64_t other : {0, 1}) {
      Case u;
      u.node("ArgMax", {u.given(x)}, {{"axis", axis}, {"select_last_index", other}});
      u.check();
      Case top;
      top.node("TopKIndices", {top.given(x)},
               {{"axis", axis}, {"count", int64_t(3)}, {"largest", other}});
      top.check();
    }
}

} // namespace pdc
