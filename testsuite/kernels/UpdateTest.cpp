#include "testsuite/kernels/UnitCase.h"

#include <gtest/gtest.h>

#include <array>

namespace pdc {

TEST(Kernels, Updates) {
  for (std::string layout : {"", "ABcd16b16a"})
    for (double step : {1.0, 7.0})
      for (int64_t flag : {0, 1, 2}) {
        std::vector<int64_t> shape = {20, 18, 3, 3};
        auto scalars = [&](UnitCase &u, std::vector<UnitValue> inputs, bool steps) {
          for (double value : {0.25, 0.1})
            inputs.push_back(u.given(Tensor::scalar(ElementType::f32, value)));
          if (steps)
            inputs.push_back(u.given(Tensor::scalar(ElementType::f32, step)));
          return inputs;
        };
        auto tensor = [&](UnitCase &u, double from = -1) {
          return u.operand(shape, from, 1, layout);
        };
        UnitCase sgd, momentum, adagrad, adam;
        auto w = tensor(sgd), g = tensor(sgd);
        sgd.node("SgdUpdate", scalars(sgd, {w, g}, false), {{"weight_decay", 0.01}});
        sgd.check();
        w = tensor(momentum), g = tensor(momentum);
        auto v = tensor(momentum);
        UnitValue next = momentum.node("MomentumUpdate", scalars(momentum, {w, g, v}, true),
                                       {{"weight_decay", 0.01},
                                        {"momentum", 0.9},
                                        {"dampening", 0.1},
                                        {"nesterov", flag % 2},
                                        {"first_step", 1.0 + static_cast<double>(flag)}},
                                       2);
        momentum.result(next), momentum.result(UnitValue::node(next.index, 1));
        momentum.check();
        w = tensor(adagrad), g = tensor(adagrad);
        next = adagrad.node(
            "AdagradUpdate", scalars(adagrad, {w, g, tensor(adagrad, 0.1)}, true),
            {{"weight_decay", 0.01}, {"lr_decay", 0.1}, {"epsilon", 1e-6}, {"first_step", 2.0}}, 2);
        adagrad.result(next), adagrad.result(UnitValue::node(next.index, 1));
        adagrad.check();
        w = tensor(adam), g = tensor(adam);
        auto m = tensor(adam);
        v = tensor(adam, 0.1);
        next = adam.node("AdamUpdate", scalars(adam, {w, g, m, v}, true),
                         {{"weight_decay", 0.01},
                          {"beta1", 0.9},
                          {"beta2", 0.999},
                          {"epsilon", 1e-8},
                          {"decoupled", std::array<int64_t, 3>{0, 2, 3}[flag]},
                          {"first_step", 1.0 - static_cast<double>(flag)},
                          {"post_decay", 0.01},
                          {"scaled_epsilon", flag % 2}},
                         3);
        for (int r = 0; r < 3; ++r)
          adam.result(UnitValue::node(next.index, r));
        adam.check();
      }
}

} // namespace pdc
