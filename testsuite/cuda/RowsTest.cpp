#include "runtime/Error.h"
#include "runtime/cuda/Kernels.h"
#include "testsuite/cuda/Rounding.h"

#include <cmath>
#include <cstring>

/// What GPUs add while they normalise rows has the bits of kernels that do one thing each, whatever
/// takes whose place.
namespace pdc::narrow {
namespace {

using runtime::LayerNormalizationFields;

template <class T> struct Rows : ::testing::Test {
  /// Rows that no four divide, that a warp or a block holds in each number of chunks, and that are
  /// read again.
  static constexpr int64_t kSizes[] = {33, 48, 384, 1024, 1030, 1500, 2052, 8192, 8200};
  static constexpr int64_t kRows = 5;
  using Values = std::vector<T>;

  Scratch scratch;

  static LayerNormalizationFields fieldsOf(int64_t size, bool isCentred) {
    LayerNormalizationFields f;
    f.rows = kRows, f.size = size, f.epsilon = 1e-5, f.centred = isCentred;
    return f;
  }
  static Values drawn(int64_t size) { return Both<T>(kRows * size, -1, 1).narrow; }
  /// Rounded once.
  template <class... More>
  static Values sumOf(const Values &a, const Values &b, const More &...more) {
    Values sum(a.size());
    for (size_t i = 0; i < a.size(); ++i)
      sum[i] = T(((float(a[i]) + float(b[i])) + ... + float(more[i])));
    return sum;
  }
  template <class Value>
  static void expectEqual(const std::vector<Value> &found, const std::vector<Value> &expected) {
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(Value)), 0);
  }
  template <class Test> static void forAll(Test test) {
    for (int64_t size : kSizes)
      for (bool isCentred : {true, false}) {
        SCOPED_TRACE(::testing::Message() << size << " elements, centred " << isCentred);
        test(size, fieldsOf(size, isCentred), numbers(size));
      }
  }
};
using AllWidths = ::testing::Types<float, BFloat16, Float16>;
TYPED_TEST_SUITE(Rows, AllWidths);

/// The sum in a place of its own, in its first term's, or kept for nobody.
TYPED_TEST(Rows, AreAddedBefore) {
  TestFixture::forAll([&](int64_t size, LayerNormalizationFields f, auto scale) {
    const auto a = this->drawn(size), b = this->drawn(size), sum = this->sumOf(a, b);
    auto y = sum, expected = sum;
    std::vector<float> mean(5), inverse(5), foundMean(5), foundInverse(5);
    runtime::Run &run = this->scratch.run;
    runtime::cuda::LayerNormalization(device, f)(run, sum.data(), scale.data(), scale.data(),
                                                 expected.data(), mean.data(), inverse.data());
    f.addend = 1;
    auto alone = a;
    runtime::cuda::LayerNormalization(device, f)(run, alone.data(), b.data(), scale.data(),
                                                 scale.data(), alone.data());
    f.keepsSum = 1;
    auto kept = a, term = b;
    runtime::cuda::LayerNormalization(device, f)(run, kept.data(), term.data(), scale.data(),
                                                 scale.data(), kept.data(), term.data(),
                                                 foundMean.data(), foundInverse.data());
    auto own = a;
    runtime::cuda::LayerNormalization(device, f)(run, a.data(), b.data(), scale.data(),
                                                 scale.data(), own.data(), y.data(),
                                                 foundMean.data(), foundInverse.data());
    finish();
    for (const auto *made : {&alone, &term, &y})
      this->expectEqual(*made, expected);
    this->expectEqual(kept, sum);
    this->expectEqual(own, sum);
    this->expectEqual(foundMean, mean);
    this->expectEqual(foundInverse, inverse);
  });
}

TYPED_TEST(Rows, GradientsAreAdded) {
  TestFixture::forAll([&](int64_t size, LayerNormalizationFields f, auto scale) {
    const auto a = this->drawn(size), b = this->drawn(size), x = this->drawn(size),
               sum = this->sumOf(a, b);
    const std::vector<float> means = numbers(5), inverse = numbers(5);
    const float *mean = f.centred ? means.data() : nullptr;
    runtime::Run &run = this->scratch.run;
    auto call = [&](const auto *dy, auto... others) {
      runtime::cuda::LayerNormalizationInputGradient(device, f)(run, dy, others...);
      finish();
    };
    auto expected = sum, ofA = a;
    call(sum.data(), x.data(), scale.data(), mean, inverse.data(), expected.data());
    call(a.data(), x.data(), scale.data(), mean, inverse.data(), ofA.data());
    // 1. Behind: in the addend's place, and in that of what arrives.
    f.addend = 1;
    auto behind = b, over = a;
    call(a.data(), x.data(), scale.data(), mean, inverse.data(), behind.data(), behind.data());
    call(over.data(), x.data(), scale.data(), mean, inverse.data(), b.data(), over.data());
    this->expectEqual(behind, this->sumOf(ofA, b));
    this->expectEqual(over, behind);
    // 2. Before.
    f.addend = 0, f.terms = 2;
    auto alone = b;
    call(a.data(), alone.data(), x.data(), scale.data(), mean, inverse.data(), alone.data());
    this->expectEqual(alone, expected);
    f.keepsSum = 1;
    auto kept = a, made = b;
    call(kept.data(), made.data(), x.data(), scale.data(), mean, inverse.data(), kept.data(),
         made.data());
    this->expectEqual(kept, sum);
    this->expectEqual(made, expected);
    // 3. Before, of as many as there may be, and behind.
    const auto c = this->drawn(size), all = this->sumOf(a, b, c, x);
    auto ofAll = all;
    f.terms = 1, f.keepsSum = 0;
    call(all.data(), x.data(), scale.data(), mean, inverse.data(), ofAll.data());
    f.terms = LayerNormalizationFields::kMostTerms, f.keepsSum = 1, f.addend = 1;
    auto keptAll = c, both = b;
    call(a.data(), b.data(), keptAll.data(), x.data(), x.data(), scale.data(), mean, inverse.data(),
         both.data(), keptAll.data(), both.data());
    this->expectEqual(keptAll, all);
    this->expectEqual(both, this->sumOf(ofAll, b));
  });
}

TYPED_TEST(Rows, ScaleAndBiasAreSummedTogether) {
  TestFixture::forAll([&](int64_t size, LayerNormalizationFields f, auto before) {
    if (size > 48 || !f.centred)
      return; // columns are what it walks over
    const auto dy = this->drawn(size), x = this->drawn(size);
    const std::vector<float> mean = numbers(5), inverse = numbers(5);
    runtime::Run &run = this->scratch.run;
    for (bool add : {false, true}) {
      std::vector<float> scale = before, bias = before, foundScale = before, foundBias = before;
      runtime::cuda::LayerNormalizationScaleGradient gradient(device, f);
      gradient(run, dy.data(), x.data(), mean.data(), inverse.data(), scale.data(), add);
      runtime::ColumnSumFields columns;
      columns.input = {f.rows, size};
      runtime::cuda::ColumnSum(device, columns)(run, dy.data(), bias.data(), add);
      gradient(run, dy.data(), x.data(), mean.data(), inverse.data(), foundScale.data(),
               foundBias.data(), add);
      finish();
      this->expectEqual(foundScale, scale);
      this->expectEqual(foundBias, bias);
    }
  });
}

/// As a loop and a sum; also where the result takes the place of what it is made of.
TYPED_TEST(Rows, ReluGradientsAreSummed) {
  for (const int64_t columns : {8, 64, 7}) {
    const int64_t rows = 300;
    const auto dy = Both<TypeParam>(rows * columns, -2, 3).narrow,
               y = Both<TypeParam>(rows * columns, -1, 1).narrow;
    auto expected = dy;
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] = static_cast<float>(y[i]) > 0 ? dy[i] : TypeParam(0);
    runtime::Run &run = this->scratch.run;
    runtime::ColumnSumFields f;
    f.input = {rows / 10, columns, 5, 2};
    const runtime::cuda::ReluGradientSum kernel(device, f);
    for (const bool add : {false, true}) {
      std::vector<float> sum = numbers(columns);
      auto sums = std::vector(3, sum);
      runtime::cuda::ColumnSum(device, f)(run, expected.data(), sum.data(), add);
      auto apart = std::vector<TypeParam>(dy.size()), ofGradient = dy, ofResult = y;
      kernel(run, dy.data(), y.data(), apart.data(), sums[0].data(), add);
      kernel(run, ofGradient.data(), y.data(), ofGradient.data(), sums[1].data(), add);
      kernel(run, dy.data(), ofResult.data(), ofResult.data(), sums[2].data(), add);
      finish();
      for (const auto &found : {apart, ofGradient, ofResult})
        this->expectEqual(found, expected);
      for (const std::vector<float> &found : sums)
        this->expectEqual(found, sum);
    }
  }
}

TEST(RowCalls, WithTooFewTensorsAreRefused) {
  LayerNormalizationFields f;
  f.rows = 1, f.size = 4, f.addend = 1;
  std::vector<float> x(4);
  Scratch scratch;
  const runtime::cuda::LayerNormalization kernel(device, f);
  EXPECT_THROW(kernel(scratch.run, x.data(), x.data(), x.data(), x.data()), runtime::Error);
}

} // namespace
} // namespace pdc::narrow
