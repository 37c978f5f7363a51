#include "runtime/kernels/Softmax.h"
#include "runtime/kernels/SoftmaxCrossEntropy.h"
#include "runtime/kernels/SoftmaxCrossEntropyGradient.h"
#include "testsuite/kernels/UnitCase.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pdc {

TEST(Kernels, CrossEntropy) {
  for (std::vector<int64_t> shape : {std::vector<int64_t>{8, 10}, {2, 5, 3, 4}})
    for (bool weighted : {false, true}) {
      std::vector<int64_t> labels = shape;
      labels.erase(labels.begin() + 1);
      Attributes attributes = {{"reduction", std::string("sum")}, {"ignore_index", int64_t(2)}};
      UnitCase gradient(3), correct(4), weight(5);
      std::vector<UnitValue> inputs;
      for (std::vector<int> kept : {std::vector<int>{0}, {0, 2}, {0, 1}, {0, 1, 2}, {1}}) {
        UnitCase unit(6);
        inputs = {unit.operand(shape, -3, 3), unit.integers(labels, 0, shape[1] - 1)};
        if (weighted)
          inputs.push_back(unit.operand({shape[1]}, 0, 1));
        UnitValue loss = unit.node("SoftmaxCrossEntropyLoss", inputs, attributes, 3);
        for (int result : kept)
          unit.result(UnitValue::node(loss.index, result));
        unit.check();
      }
      std::vector<int64_t> scales = shape;
      scales[1] = 2;
      inputs = {gradient.operand(shape, -4, 0), gradient.operand(scales, 0, 1),
                gradient.integers(labels, 0, shape[1] - 1), gradient.operand({})};
      if (weighted)
        inputs.push_back(gradient.operand({shape[1]}, 0, 1));
      gradient.node("SoftmaxCrossEntropyLossGrad", inputs, attributes);
      gradient.check();
      correct.node("CorrectPredictions", {correct.operand(shape), correct.integers(labels, 0, 4)},
                   attributes);
      correct.check();
      inputs = {weight.integers(labels, 0, 4)};
      if (weighted)
        inputs.push_back(weight.operand({shape[1]}, 0, 1));
      weight.node("LossWeight", inputs, attributes);
      weight.check();
    }
}

TEST(Kernels, OtherLosses) {
  for (std::string kind :
       {"MeanSquaredError", "MeanAbsoluteError", "BinaryCrossEntropyWithLogits"}) {
    UnitCase unit, gradient;
    unit.node(kind, {unit.operand({7, 9}), unit.operand({7, 9}, 0, 1)});
    unit.check();
    UnitValue x = gradient.operand({7, 9}), t = gradient.operand({7, 9}, 0, 1);
    gradient.node(kind + "Grad", {x, t, gradient.operand({})});
    gradient.check();
  }
}

TEST(Kernels, Softmax) {
  for (std::string kind : {"Softmax", "LogSoftmax"})
    for (int64_t axis : {-1, 1, 0}) {
      UnitCase unit, gradient;
      unit.node(kind, {unit.operand({3, 4, 5}, -3, 3)}, {{"axis", axis}});
      unit.check();
      UnitValue dy = gradient.operand({3, 4, 5});
      gradient.node(kind + "Grad", {dy, gradient.operand({3, 4, 5}, -2, 0)}, {{"axis", axis}});
      gradient.check();
    }
}

/// Equal scores have the loss log(classes) at any height: 1e9 must not swallow the logarithm.
TEST(Losses, LargeScoresKeepTheLogarithm) {
  const std::vector<float> scores(8, 1e9f);
  const int64_t labels[] = {2, 0};
  const runtime::Run run;
  float loss = 0, kept = 0;
  std::vector<float> logProbabilities(8), logSoftmax(8), scales(4), dx(8);
  runtime::LabelledFields fields{.classes = 4, .results = {0}, .samples = 2};
  runtime::SoftmaxCrossEntropy({}, fields)(run, scores.data(), labels, nullptr, &loss);
  fields.results = {0, 1, 2};
  runtime::SoftmaxCrossEntropy({}, fields)(run, scores.data(), labels, nullptr, &kept,
                                           logProbabilities.data(), scales.data());
  const float dy = 1;
  runtime::SoftmaxCrossEntropyGradient({}, fields)(run, scores.data(), scales.data(), labels, &dy,
                                                   nullptr, dx.data());
  runtime::Softmax softmax({}, {.inner = 1, .logarithm = 1, .outer = 2, .size = 4});
  softmax(run, scores.data(), logSoftmax.data());
  EXPECT_NEAR(loss, 2 * std::log(4.0), 1e-5);
  EXPECT_NEAR(kept, loss, 1e-5);
  for (int i = 0; i < 8; ++i) {
    EXPECT_NEAR(logProbabilities[i], -std::log(4.0), 1e-6);
    EXPECT_NEAR(logSoftmax[i], -std::log(4.0), 1e-6);
    EXPECT_NEAR(dx[i], i == 2 || i == 4 ? -0.75 : 0.25, 1e-6);
  }
}

} // namespace pdc
