#include "runtime/kernels/Softmax.h"
#include "runtime/kernels/SoftmaxCrossEntropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace pdc::runtime {

/// Equal scores have the loss log(classes) at any height: 1e9 must not swallow the logarithm.
TEST(Losses, LargeScoresKeepTheLogarithm) {
  const std::vector<float> scores(8, 1e9f);
  const int64_t labels[] = {2, 0};
  const runtime::Run run;
  float loss = 0, kept = 0;
  std::vector<float> logProbabilities(8), logSoftmax(8);
  SoftmaxCrossEntropy crossEntropy({}, {.classes = 4, .samples = 2});
  crossEntropy(run, scores.data(), labels, &loss);
  crossEntropy(run, scores.data(), labels, &kept, logProbabilities.data());
  Softmax softmax({}, {.inner = 1, .logarithm = 1, .outer = 2, .size = 4});
  softmax(run, scores.data(), logSoftmax.data());
  EXPECT_NEAR(loss, 2 * std::log(4.0), 1e-5);
  EXPECT_NEAR(kept, loss, 1e-5);
  for (int i = 0; i < 8; ++i) {
    EXPECT_NEAR(logProbabilities[i], -std::log(4.0), 1e-6);
    EXPECT_NEAR(logSoftmax[i], -std::log(4.0), 1e-6);
  }
}

} // namespace pdc::runtime
