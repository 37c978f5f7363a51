#include "runtime/cuda/Kernels.h"
#include "testsuite/kernels/KernelMakers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

/// Losses of scores at the edges of what floats can say, against closed formulas, and of scores in
/// 16 bits.
namespace pdc {
namespace {

/// Rows of scores: by a warp, a block (in wide accesses or not) and a thread each.
const std::vector<runtime::LabelledFields> kForms = {
    {.classes = 70, .samples = 7},
    {.classes = 1504, .samples = 7},
    {.classes = 1501, .samples = 7},
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
    runtime::LabelledFields fields = f;
    fields.results = {0, 1};
    runtime::cuda::SoftmaxCrossEntropy kernel({1, 0}, fields);
    kernel(run, scores.data(), labels.data(), nullptr, &sum, logProbabilities.data());
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

/// The weight of a label outside the classes is looked for nowhere: it lies in nobody's memory.
template <class Weight> void expectOutsideWeighNothing(const Weight &kernel) {
  constexpr int64_t far = int64_t(1) << 50;
  const int64_t labels[] = {0, far, 2, -far, 1, 3, -1};
  const float weights[] = {0.5f, 2, 4};
  std::vector<float> scratch(1 << 16);
  runtime::Run run = started({});
  run.scratchBase = reinterpret_cast<std::byte *>(scratch.data());
  float weight = 0;
  kernel(run, labels, weights, &weight);
  finish();
  EXPECT_EQ(weight, 4.5f);
}

TEST(CudaLosses, WeighNoLabelsOutsideTheClasses) {
  const runtime::LossWeightFields f{.classes = 3, .count = 7, .ignoreIndex = 1, .ignores = 1};
  expectOutsideWeighNothing(runtime::LossWeight({}, f));
  expectOutsideWeighNothing(runtime::cuda::LossWeight({1, 0}, f));
}

/// Scores are read in 16 bits as the f32 that they are, eight at a time where those are four; their
/// gradient is rounded once, and may take their place.
template <class T> void expectNarrowLosses(runtime::LabelledFields f) {
  f.results = {0, 2};
  const int64_t rows = f.samples * f.pixels, count = rows * f.classes;
  std::vector<T> scores, narrow(size_t(count), T(9.0f));
  std::vector<float> sameScores, wide(size_t(count), 9.0f), scratch(1 << 20);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < count; ++i)
    sameScores.push_back(float(scores.emplace_back(float(i * 37 % 101) / 8 - 6)));
  for (int64_t i = 0; i < rows; ++i)
    labels.push_back(i * 7 % f.classes);
  runtime::Run run = started({});
  run.scratchBase = reinterpret_cast<std::byte *>(scratch.data());
  auto lossOf = [&](const auto *from, std::vector<float> &scales) {
    float sum = 0;
    scales.resize(size_t(2 * rows));
    runtime::cuda::SoftmaxCrossEntropy({1, 0}, f)(run, from, labels.data(), nullptr, &sum,
                                                  scales.data());
    finish();
    return sum;
  };
  std::vector<float> ofNarrow, ofWide;
  const float loss = lossOf(sameScores.data(), ofWide);
  EXPECT_NEAR(lossOf(scores.data(), ofNarrow), loss, 1e-6 * loss);
  for (size_t i = 0; i < ofWide.size(); ++i)
    ASSERT_NEAR(ofNarrow[i], ofWide[i], 1e-6 * std::abs(ofWide[i])) << i;
  const float dy = 0.5f;
  auto gradientOf = [&](const auto *from, auto *dx) {
    const runtime::cuda::SoftmaxCrossEntropyGradient gradient({1, 0}, f);
    gradient(run, from, ofWide.data(), labels.data(), &dy, nullptr, dx);
    finish();
  };
  gradientOf(sameScores.data(), wide.data());
  auto expectRounded = [&](const char *how) {
    for (size_t i = 0; i < wide.size(); ++i)
      ASSERT_EQ(narrow[i], T(wide[i])) << how << ": element " << i << ", in f32 " << wide[i];
  };
  gradientOf(scores.data(), narrow.data());
  expectRounded("of 16 bits");
  gradientOf(sameScores.data(), narrow.data());
  expectRounded("of f32");
  narrow = scores;
  gradientOf(narrow.data(), narrow.data());
  expectRounded("in place");
  std::vector<float> ofNarrowScores(wide.size());
  gradientOf(scores.data(), ofNarrowScores.data());
  EXPECT_EQ(ofNarrowScores, wide);
}

/// The first of the largest scores; a first one that is no number is as the largest.
template <class T>
float countCorrect(const runtime::LabelledFields &f, const std::vector<T> &scores,
                   const std::vector<int64_t> &labels) {
  const int64_t pitch = f.pitch ? f.pitch : f.classes;
  float correct = 0;
  for (int64_t row = 0; row < f.samples * f.pixels; ++row) {
    const int64_t first =
        f.pixels > 1 ? row / f.pixels * f.classes * f.pixels + row % f.pixels : row * pitch;
    int64_t best = 0;
    for (int64_t c = 1; c < f.classes; ++c)
      if (float(scores[size_t(first + c * f.pixels)]) >
          float(scores[size_t(first + best * f.pixels)]))
        best = c;
    correct += best == labels[size_t(row)];
  }
  return correct;
}

template <class T> void expectCorrect(runtime::LabelledFields f, bool hasNoNumbers) {
  const int64_t rows = f.samples * f.pixels;
  const int64_t size = f.pixels > 1 ? rows * f.classes : rows * (f.pitch ? f.pitch : f.classes);
  std::vector<T> scores;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < size; ++i)
    scores.push_back(T(hasNoNumbers && i % 29 == 0 ? NAN : float(i * 7919 % 31)));
  for (int64_t i = 0; i < rows; ++i)
    labels.push_back(i * 5 % std::min<int64_t>(f.classes, 9));
  std::vector<float> scratch(1 << 20);
  runtime::Run run = started({});
  run.scratchBase = reinterpret_cast<std::byte *>(scratch.data());
  float found = -1;
  runtime::cuda::CorrectPredictions({1, 0}, f)(run, scores.data(), labels.data(), &found);
  finish();
  EXPECT_EQ(found, countCorrect(f, scores, labels))
      << f.classes << " classes, " << rows << " rows, pitch " << f.pitch;
  EXPECT_GT(found, 0);
}

/// Also of more rows than there are blocks, of padded ones, and of ties.
TEST(CudaLosses, CountCorrectPredictions) {
  for (bool hasNoNumbers : {false, true})
    for (const runtime::LabelledFields &f :
         std::vector<runtime::LabelledFields>{{.classes = 10, .samples = 700},
                                              {.classes = 61, .pitch = 64, .samples = 300},
                                              {.classes = 1501, .pitch = 1504, .samples = 600},
                                              {.classes = 5, .pixels = 1024, .samples = 132}}) {
      expectCorrect<float>(f, hasNoNumbers);
      expectCorrect<runtime::BFloat16>(f, hasNoNumbers);
    }
}

TEST(CudaLosses, Of16Bits) {
  for (const runtime::LabelledFields &f : kForms) {
    expectNarrowLosses<runtime::BFloat16>(f);
    expectNarrowLosses<runtime::Float16>(f);
  }
}

} // namespace
} // namespace pdc
