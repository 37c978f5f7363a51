#include "runtime/kernels/PairLoss.h"
#include "runtime/kernels/PairLossGradient.h"
#include "runtime/kernels/Softmax.h"
#include "runtime/kernels/SoftmaxCrossEntropy.h"
#include "runtime/kernels/SoftmaxCrossEntropyGradient.h"
#include "testsuite/kernels/UnitCase.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string_view>

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

/// A pair alone, among as many as make vectors and behind them: to some ulps of f32 what f64 says.
TEST(Losses, BinaryCrossEntropyOfAnySize) {
  for (float target : {0.0f, 0.3f, 1.0f})
    for (float x : {0.0f, 1e-7f, -1e-3f, 0.7f, -3.0f, 12.0f, -17.0f, 30.0f, -60.0f, 120.0f, -2e4f,
                    3e38f, NAN})
      for (int64_t count : {1, 32, 45}) {
        const runtime::PairLossFields fields{count, "BinaryCrossEntropyWithLogits"};
        const std::vector<float> scores(count, x), targets(count, target);
        std::vector<float> dx(count);
        float loss = 0;
        const float dy = 1;
        runtime::PairLoss({}, fields)(runtime::Run(), scores.data(), targets.data(), &loss);
        runtime::PairLossGradient({}, fields)(runtime::Run(), scores.data(), targets.data(), &dy,
                                              dx.data());
        const double one = std::max<double>(x, 0) - static_cast<double>(x) * target +
                           std::log1p(std::exp(-std::abs(static_cast<double>(x)))),
                     gradient = 1 / (1 + std::exp(-static_cast<double>(x))) - target;
        if (std::isnan(x)) {
          EXPECT_TRUE(std::isnan(loss));
          EXPECT_TRUE(std::isnan(dx.front()) && std::isnan(dx.back()));
          continue;
        }
        if (one * static_cast<double>(count) > std::numeric_limits<float>::max())
          EXPECT_EQ(loss, std::numeric_limits<float>::infinity());
        else
          EXPECT_NEAR(loss, one * static_cast<double>(count),
                      4e-7 * one * static_cast<double>(count) + 1e-44)
              << x;
        for (float found : dx)
          EXPECT_NEAR(found, gradient, 3e-7 * std::max(std::abs(gradient), 1.0 * target)) << x;
      }
}

/// A loss is summed in f64: small ones do not go under beside a large one.
TEST(Losses, SumsOfPairsAreInDouble) {
  for (const char *kind : {"MeanSquaredError", "MeanAbsoluteError"}) {
    constexpr int64_t count = 100003;
    std::vector<float> x(count, 0x1p-12f), zeros(count);
    x.front() = 0x1p12f;
    float loss = 0;
    runtime::PairLoss({}, {count, kind})(runtime::Run(), x.data(), zeros.data(), &loss);
    const bool squares = std::string_view(kind) == "MeanSquaredError";
    const double large = squares ? 0x1p24 : 0x1p12, small = squares ? 0x1p-24 : 0x1p-12;
    EXPECT_EQ(loss, static_cast<float>(large + (count - 1) * small)) << kind;
  }
}

} // namespace pdc
