#include "runtime/cuda/Kernels.h"
#include "testsuite/kernels/KernelMakers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

/// Losses of scores at the edges of what floats can say, against closed formulas.
namespace pdc {
namespace {

/// Rows of scores: by a warp, a block and a thread each.
const std::vector<runtime::LabelledFields> kForms = {
    {.classes = 70, .samples = 7},
    {.classes = 1500, .samples = 7},
    {.classes = 5, .pixels = 1024, .samples = 132}};

/// What comes out where the scores of a row are 3 in its last `others` classes, the last of which
/// the label is, and `first` before.
struct Losses {
  float sum;
  std::vector<float> logProbabilities;

  Losses(const runtime::LabelledFields &f, int64_t others, float first)
      : logProbabilities(size_t(f.samples * f.classes * f.pixels)) {
    const std::vector<int64_t> labels(size_t(f.samples * f.pixels), f.classes - 1);
    std::vector<float> scores = logProbabilities, scratch(1 << 20);
    for (size_t i = 0; i < scores.size(); ++i)
      scores[i] = int64_t(i) / f.pixels % f.classes < f.classes - others ? first : 3;
    runtime::Run run = started({});
    run.scratchBase = reinterpret_cast<std::byte *>(scratch.data());
    runtime::cuda::SoftmaxCrossEntropy kernel({1, 0}, f);
    kernel(run, scores.data(), labels.data(), &sum, logProbabilities.data());
    finish();
  }
};

/// Masked classes are as none.
TEST(CudaLosses, OfScoresOfMinusInfinity) {
  constexpr float masked = -std::numeric_limits<float>::infinity();
  for (const runtime::LabelledFields &f : kForms)
    for (int64_t others : {1, 2, 4}) {
      const Losses found(f, others, masked);
      const double each = std::log(double(others)), rows = double(f.samples * f.pixels);
      EXPECT_NEAR(found.sum, rows * each, 1e-5 * rows) << f.classes << " classes";
      EXPECT_EQ(found.logProbabilities.front(), masked);
      EXPECT_NEAR(found.logProbabilities.back(), -each, 1e-5);
    }
}

/// Where every class of a row is masked there is no loss, nor where a score is no number: the
/// runtime is to see it.
TEST(CudaLosses, OfScoresThatAreNoNumbers) {
  for (const runtime::LabelledFields &f : kForms) {
    EXPECT_TRUE(std::isnan(Losses(f, 2, std::numeric_limits<float>::quiet_NaN()).sum));
    EXPECT_TRUE(std::isnan(Losses(f, 2, std::numeric_limits<float>::infinity()).sum));
    EXPECT_TRUE(std::isnan(Losses(f, 0, -std::numeric_limits<float>::infinity()).sum));
  }
}

} // namespace
} // namespace pdc
