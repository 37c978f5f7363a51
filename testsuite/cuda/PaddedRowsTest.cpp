#include "runtime/cuda/Kernels.h"
#include "testsuite/kernels/KernelMakers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

/// Kernels that are told how far rows lie apart: literal sums of small integers, which every type
/// holds, and what rows that are not padded give. The padding is no number, and stays what it was.
namespace pdc {
namespace {

using runtime::BFloat16;
constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();

/// Rows of small integers, from a multiple of 64 bytes on.
template <class T> class Rows {
public:
  Rows(int64_t rows, int64_t columns, int64_t pitch, int64_t step)
      : columns(columns), pitch(pitch), memory(size_t(rows * pitch) + 64, T(kNothing)) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        at(r, c) = T(float((r * columns + c) * step % 7 - 3));
  }
  T *data() {
    const auto address = (reinterpret_cast<uintptr_t>(memory.data()) + 63) & ~uintptr_t(63);
    return reinterpret_cast<T *>(address);
  }
  T &at(int64_t row, int64_t column) { return data()[row * pitch + column]; }
  void expectPaddingKept() {
    for (int64_t row = 0; (row + 1) * pitch <= int64_t(memory.size()) - 64; ++row)
      for (int64_t column = columns; column < pitch; ++column)
        EXPECT_TRUE(std::isnan(float(at(row, column)))) << row << ", " << column;
  }

  const int64_t columns, pitch;

private:
  std::vector<T> memory;
};

runtime::Run runWith(std::vector<float> &scratch) {
  runtime::Run run = started({});
  run.scratchBase = reinterpret_cast<std::byte *>(scratch.data());
  return run;
}

/// Two samples of products of 5 x 9 by 9 x 13, whose factors may be stored turned; `shared`: the
/// second factor is that of both.
void expectProduct(bool transA, bool transB, bool shared, bool hasBias) {
  constexpr int64_t kSamples = 2, kRows = 5, kInner = 9, kColumns = 13, kPitch = 16;
  Rows<BFloat16> a(kSamples * (transA ? kInner : kRows), transA ? kRows : kInner, kPitch, 3),
      b((shared ? 1 : kSamples) * (transB ? kColumns : kInner), transB ? kInner : kColumns, kPitch,
        5),
      bias(1, kColumns, kPitch, 2), y(kSamples * kRows, kColumns, kPitch, 1);
  runtime::MatrixProductFields f;
  f.a = transA ? std::vector<int64_t>{kSamples, kInner, kRows}
               : std::vector<int64_t>{kSamples, kRows, kInner};
  f.b = transB ? std::vector<int64_t>{kColumns, kInner} : std::vector<int64_t>{kInner, kColumns};
  if (!shared)
    f.b = transB ? std::vector<int64_t>{kSamples, kColumns, kInner}
                 : std::vector<int64_t>{kSamples, kInner, kColumns};
  if (hasBias)
    f.bias = std::vector<int64_t>{1, 1, kColumns};
  f.compute = "bf16";
  f.output = std::vector<int64_t>{kSamples, kRows, kColumns};
  f.pitchA = f.pitchB = f.pitchY = kPitch;
  f.transA = transA, f.transB = transB;
  std::vector<float> scratch(1 << 20);
  const runtime::Run run = runWith(scratch);
  runtime::cuda::MatrixProduct product({1, 1 << 16}, f);
  hasBias ? product(run, a.data(), b.data(), bias.data(), y.data())
          : product(run, a.data(), b.data(), y.data());
  finish();
  for (int64_t s = 0; s < kSamples; ++s)
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t c = 0; c < kColumns; ++c) {
        float sum = hasBias ? float(bias.at(0, c)) : 0;
        for (int64_t k = 0; k < kInner; ++k)
          sum += float(transA ? a.at(s * kInner + k, r) : a.at(s * kRows + r, k)) *
                 float(transB ? b.at((shared ? 0 : s * kColumns) + c, k)
                              : b.at((shared ? 0 : s * kInner) + k, c));
        ASSERT_EQ(float(y.at(s * kRows + r, c)), sum) << s << ", " << r << ", " << c;
      }
  y.expectPaddingKept();
}

TEST(PaddedRows, Products) {
  for (bool transA : {false, true})
    for (bool transB : {false, true})
      for (bool shared : {false, true})
        for (bool hasBias : {false, true})
          expectProduct(transA, transB, shared, hasBias);
}

template <class T> void expectSums(int64_t rows, int64_t columns, int64_t pitch) {
  Rows<T> x(rows, columns, pitch, 3);
  std::vector<float> scratch(1 << 20), found(size_t(columns) + 1, 1.0f);
  runtime::ColumnSumFields f;
  f.input = std::vector<int64_t>{rows, columns}, f.pitch = pitch;
  runtime::cuda::ColumnSum sum({1, 0}, f);
  sum(runWith(scratch), x.data(), found.data(), true);
  finish();
  for (int64_t c = 0; c < columns; ++c) {
    float expected = 1;
    for (int64_t r = 0; r < rows; ++r)
      expected += float(x.at(r, c));
    EXPECT_EQ(found[size_t(c)], expected) << c << " of " << columns;
  }
  EXPECT_EQ(found.back(), 1) << columns;
}

/// By fours, of which the last reaches into the padding or not, and one by one.
TEST(PaddedRows, SumsOverRows) {
  for (auto [columns, pitch] : {std::pair(57, 64),
                                {58, 64},
                                {59, 60},
                                {60, 64},
                                {60, 60},
                                {3, 8},
                                {1501, 1504},
                                {57, 57},
                                {57, 63}})
    for (int64_t rows : {1, 70}) {
      expectSums<BFloat16>(rows, columns, pitch);
      expectSums<float>(rows, columns, pitch);
    }
}

/// A row by a warp and by a block. Rows that begin at multiples of 16 bytes are added up in another
/// order; the gradient of the same scales is the same.
TEST(PaddedRows, Losses) {
  for (int64_t classes : {61, 1501}) {
    runtime::LabelledFields plain{.classes = classes, .results = {0, 1, 2}, .samples = 6},
        padded = plain;
    padded.pitch = (classes + 7) / 8 * 8, padded.gradientPitch = padded.pitch + 8;
    Rows<BFloat16> scores(6, classes, padded.pitch, 3), packed(6, classes, classes, 3);
    Rows<BFloat16> dx(6, classes, padded.gradientPitch, 1), packedDx(6, classes, classes, 1);
    const std::vector<int64_t> labels = {0, 4, 6, 1, 60, 5};
    std::vector<float> scratch(1 << 20), logs(size_t(6 * classes)), packedLogs = logs, scales(12),
                                                                    packedScales(12);
    const runtime::Run run = runWith(scratch);
    const float dy = 2;
    float loss = 0, packedLoss = 0, correct = 0, packedCorrect = 0;
    auto runAs = [&](const runtime::LabelledFields &f, auto &of, auto &gradient, auto &ofLogs,
                     auto &ofRows, float *sum, float *count) {
      runtime::cuda::SoftmaxCrossEntropy({1, 0}, f)(run, of.data(), labels.data(), nullptr, sum,
                                                    ofLogs.data(), ofRows.data());
      runtime::cuda::SoftmaxCrossEntropyGradient({1, 0}, f)(
          run, of.data(), packedScales.data(), labels.data(), &dy, nullptr, gradient.data());
      runtime::cuda::CorrectPredictions({1, 0}, f)(run, of.data(), labels.data(), count);
      finish();
    };
    runAs(plain, packed, packedDx, packedLogs, packedScales, &packedLoss, &packedCorrect);
    runAs(padded, scores, dx, logs, scales, &loss, &correct);
    EXPECT_NEAR(loss, packedLoss, 1e-6 * packedLoss);
    for (size_t i = 0; i < logs.size(); ++i)
      ASSERT_NEAR(logs[i], packedLogs[i], 2e-6 * std::abs(packedLogs[i])) << i;
    for (size_t i = 0; i < scales.size(); ++i)
      ASSERT_NEAR(scales[i], packedScales[i], 2e-6 * std::abs(packedScales[i])) << i;
    EXPECT_EQ(correct, packedCorrect);
    for (int64_t r = 0; r < 6; ++r)
      for (int64_t c = 0; c < classes; ++c)
        ASSERT_EQ(float(dx.at(r, c)), float(packedDx.at(r, c))) << r << ", " << c;
    dx.expectPaddingKept();
  }
}

} // namespace
} // namespace pdc
