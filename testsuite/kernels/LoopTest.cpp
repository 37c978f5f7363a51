#include "runtime/kernels/ArgMax.h"
#include "runtime/kernels/DropoutBits.h"
#include "runtime/kernels/Elementwise.h"
#include "runtime/kernels/Reduce.h"
#include "runtime/kernels/TopK.h"

#include "compiler/operators/Dropout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace pdc::runtime {

TEST(Loops, OneTwoAndThreeResults) {
  const int64_t count = kParallelElements + 13;
  std::vector<float> a(count), b(count), x(count), y(count), z(count);
  for (int64_t i = 0; i < count; ++i)
    a[i] = static_cast<float>(i), b[i] = static_cast<float>(3 - i);
  runtime::Run run;
  elementwise(
      run, count, [](float u, float v) -> float { return u * v; }, x.data(), a.data(), b.data());
  elementwise(
      run, count, [](float u) { return results(u + 1, u + 2); }, y.data(), z.data(), a.data());
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(x[i], a[i] * b[i]);
    ASSERT_EQ(y[i], a[i] + 1);
    ASSERT_EQ(z[i], a[i] + 2);
  }
  elementwise(
      run, count, [](float u, float v) { return results(u, v, u - v); }, x.data(), y.data(),
      z.data(), a.data(), b.data());
  ASSERT_EQ(z[5], a[5] - b[5]);
}

/// Numbers of each size and sign, and infinite ones.
static std::vector<float> numbersOfEachSize() {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x = {infinity, -infinity};
  for (uint32_t bits = 0; bits < 0x7f800000; bits += 40009)
    for (float sign : {1.0f, -1.0f})
      x.push_back(sign * std::bit_cast<float>(bits));
  return x;
}

/// Of the f64 function up to a size; and a vector's elements are those of single calls.
template <class Function>
static void expectLike(double (*standard)(double), Function function,
                       float most = std::numeric_limits<float>::max()) {
  std::vector<float> x = numbersOfEachSize();
  std::erase_if(x, [&](float v) { return std::abs(v) > most; });
  std::vector<float> y(x.size());
  elementwise(
      runtime::Run(), static_cast<int64_t>(x.size()), [&](float v) -> float { return function(v); },
      y.data(), x.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = standard(static_cast<double>(x[i]));
    volatile float single = x[i];
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(y[i])) << x[i];
      continue;
    }
    ASSERT_EQ(y[i], function(float(single))) << x[i];
    if (std::isinf(expected))
      ASSERT_EQ(y[i], expected) << x[i];
    else if (std::abs(expected) > std::numeric_limits<float>::max())
      ASSERT_GE(std::copysign(y[i], y[i] * expected), std::numeric_limits<float>::max()) << x[i];
    else
      ASSERT_NEAR(y[i], expected, 3e-7 * std::abs(expected) + 1e-44) << x[i];
  }
  EXPECT_TRUE(std::isnan(function(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Loops, HyperbolicTangent) {
  expectLike(std::tanh, [](float v) { return hyperbolicTangent(v); });
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(hyperbolicTangent(infinity), 1);
  EXPECT_EQ(hyperbolicTangent(-infinity), -1);
  EXPECT_TRUE(std::signbit(hyperbolicTangent(-0.0f)));
}

TEST(Loops, Exponential) {
  expectLike(std::exp, [](float v) { return exponential(v); });
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exponential(infinity), infinity);
  EXPECT_EQ(exponential(-infinity), 0);
  EXPECT_EQ(exponential(0.0f), 1);
}

TEST(Loops, ErrorFunction) {
  expectLike(std::erf, [](float v) { return errorFunction(v); });
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(errorFunction(infinity), 1);
  EXPECT_EQ(errorFunction(-infinity), -1);
  EXPECT_TRUE(std::signbit(errorFunction(-0.0f)));
}

TEST(Loops, ExponentialLessOne) {
  expectLike(std::expm1, [](float v) { return exponentialLessOne(v); });
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exponentialLessOne(infinity), infinity);
  EXPECT_EQ(exponentialLessOne(-infinity), -1);
  EXPECT_TRUE(std::signbit(exponentialLessOne(-0.0f)));
}

TEST(Loops, Logarithm) {
  expectLike(std::log, [](float v) { return logarithm(v); });
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(logarithm(infinity), infinity);
  EXPECT_EQ(logarithm(0.0f), -infinity);
  EXPECT_EQ(logarithm(1.0f), 0);
  EXPECT_TRUE(std::isnan(logarithm(-infinity)));
}

TEST(Loops, LogarithmOfOneMore) {
  expectLike(std::log1p, [](float v) { return logarithmOfOneMore(v); });
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(logarithmOfOneMore(infinity), infinity);
  EXPECT_EQ(logarithmOfOneMore(-1.0f), -infinity);
  EXPECT_TRUE(std::signbit(logarithmOfOneMore(-0.0f)));
  EXPECT_TRUE(std::isnan(logarithmOfOneMore(-infinity)));
}

TEST(Loops, SineAndCosine) {
  expectLike(
      std::sin, [](float v) { return sine(v); }, 0x1p50f);
  expectLike(
      std::cos, [](float v) { return cosine(v); }, 0x1p50f);
  EXPECT_TRUE(std::signbit(sine(-0.0f)));
  for (float large : {0x1p60f, 3e38f, -3e38f}) {
    EXPECT_LE(std::abs(sine(large)), 1);
    EXPECT_LE(std::abs(cosine(large)), 1);
  }
  EXPECT_TRUE(std::isnan(sine(std::numeric_limits<float>::infinity())));
  EXPECT_TRUE(std::isnan(cosine(-std::numeric_limits<float>::infinity())));
}

TEST(Loops, ArcTangent) {
  expectLike(std::atan, [](float v) { return arcTangent(v); });
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(arcTangent(infinity), 1.5707963268f);
  EXPECT_EQ(arcTangent(-infinity), -1.5707963268f);
  EXPECT_TRUE(std::signbit(arcTangent(-0.0f)));
}

TEST(Loops, PowerThatIsKnown) {
  expectLike([](double v) { return v * v; }, [](float v) { return knownPower(v, 2.0f); });
  expectLike([](double v) { return v * v * v; }, [](float v) { return knownPower(v, 3.0f); });
  expectLike([](double v) { return std::sqrt(v); }, [](float v) { return knownPower(v, 0.5f); });
  expectLike([](double v) { return 1 / std::sqrt(v); },
             [](float v) { return knownPower(v, -0.5f); });
  expectLike([](double v) { return std::pow(v, 0.75); },
             [](float v) { return knownPower(v, 0.75f); });
  expectLike([](double v) { return std::pow(v, -3.5); },
             [](float v) { return knownPower(v, -3.5f); });
  expectLike([](double v) { return std::pow(v, -5); },
             [](float v) { return knownPower(v, -5.0f); });
}

/// Of numbers of each size and sign, and of those that standard functions name.
TEST(Loops, Power) {
  const float infinity = std::numeric_limits<float>::infinity(), none = NAN;
  const std::vector<float> exponents = {-infinity, -3.5f, -3,   -2,   -1,       -0.75f,
                                        -0.5f,     -0.0f, 0.1f, 0.5f, 1,        2,
                                        3,         4.3f,  17,   1e9f, infinity, none};
  std::vector<float> x = numbersOfEachSize();
  x.insert(x.end(), {0.0f, -0.0f, 1, -1, infinity, -infinity, none});
  std::vector<float> y(x.size()), exponent(x.size());
  for (float e : exponents) {
    std::ranges::fill(exponent, e);
    elementwise(
        runtime::Run(), static_cast<int64_t>(x.size()),
        [](float v, float w) -> float { return power(v, w); }, y.data(), x.data(), exponent.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = std::pow(static_cast<double>(x[i]), static_cast<double>(e));
      const float rounded = static_cast<float>(expected);
      volatile float single = x[i];
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(y[i])) << x[i] << " to " << e;
        continue;
      }
      ASSERT_EQ(y[i], power(float(single), e)) << x[i] << " to " << e;
      ASSERT_EQ(std::signbit(y[i]), std::signbit(expected)) << x[i] << " to " << e;
      if (std::isinf(rounded))
        ASSERT_EQ(y[i], rounded) << x[i] << " to " << e;
      else
        ASSERT_NEAR(y[i], expected, 1e-7 * std::abs(expected) + 1e-44) << x[i] << " to " << e;
    }
  }
}

TEST(Loops, InPlaceAndSums) {
  std::vector<float> a(100, 2), sum(100, 7);
  runtime::Run run;
  elementwise(
      run, 100, [](float u) { return u * u; }, a.data(), a.data());
  accumulate(run, 100, sum.data(), a.data(), true);
  EXPECT_EQ(sum[99], 11);
  accumulate(run, 100, sum.data(), a.data(), false);
  EXPECT_EQ(sum[0], 4);
}

TEST(Loops, OtherElementTypes) {
  std::vector<int64_t> a(10, 3);
  std::vector<float> b(10);
  std::vector<uint8_t> c(10);
  runtime::Run run;
  elementwise(
      run, 10, [](int64_t u) -> float { return static_cast<float>(u); }, b.data(), a.data());
  elementwise(
      run, 10, [](float u) -> bool { return u > 2; }, c.data(), b.data());
  EXPECT_EQ(b[9], 3);
  EXPECT_EQ(c[9], 1);
}

TEST(Kernels, ArgMaxTakesFirstOrLastAndNaN) {
  const float nan = NAN;
  // [2, 4, 2] along axis 1
  std::vector<float> x = {1, 5, 3, 2, 3, 5, 0, 4, 7, 1, nan, 1, 9, 1, nan, 1};
  std::vector<int64_t> y(4);
  ArgMaxFields fields{.inner = 2, .last = 0, .outer = 2, .size = 4};
  ArgMax(Device{2, 0}, fields)(runtime::Run(), x.data(), y.data());
  EXPECT_EQ(y, (std::vector<int64_t>{1, 0, 1, 0}));
  fields.last = 1;
  ArgMax(Device{1, 0}, fields)(runtime::Run(), x.data(), y.data());
  EXPECT_EQ(y, (std::vector<int64_t>{2, 2, 3, 3}));
}

/// Wherever it stands: in lanes, behind them, in a column.
TEST(Kernels, MaximaWithNaNAreNaN) {
  constexpr int64_t rows = 3, columns = 37;
  std::vector<float> x(rows * columns, 1);
  for (size_t at : {size_t(5), size_t(columns + 36)})
    x[at] = NAN;
  std::vector<float> ofRows(rows), ofColumns(columns);
  Reduce(Device{1, 0}, {{rows}, {columns}, "maximum", {columns}, {1}})(runtime::Run(), x.data(),
                                                                       ofRows.data());
  Reduce(Device{2, 0}, {{columns}, {1}, "maximum", {rows}, {columns}})(runtime::Run(), x.data(),
                                                                       ofColumns.data());
  EXPECT_TRUE(std::isnan(ofRows[0]) && std::isnan(ofRows[1]));
  EXPECT_EQ(ofRows[2], 1);
  for (size_t column = 0; column < columns; ++column)
    EXPECT_EQ(std::isnan(ofColumns[column]), column == 5 || column == 36) << column;
}

TEST(Kernels, TopKTakesNaNAndTheFirstOfEqualOnes) {
  const float nan = NAN;
  std::vector<float> x = {2, nan, 5, 5, nan, 1};
  for (const auto &[largest, order] : {std::pair(1, std::vector<int64_t>{1, 4, 2, 3, 0, 5}),
                                       std::pair(0, std::vector<int64_t>{5, 0, 2, 3, 1, 4})})
    for (int64_t count = 0; count <= 6; ++count) {
      std::vector<int64_t> y(count);
      TopKFields fields{.count = count, .largest = largest, .size = 6};
      TopK(Device{1, 0}, fields)(runtime::Run(), x.data(), y.data());
      EXPECT_EQ(y, std::vector<int64_t>(order.begin(), order.begin() + count));
    }
}

TEST(Random, IsTheCompilersFunction) {
  for (uint64_t seed : {0ull, 42ull, 1ull << 63})
    for (uint64_t step : {0ull, 7ull})
      for (uint64_t sample : {3ull, 1ull << 40})
        for (uint64_t element = 0; element < 50; ++element)
          ASSERT_EQ(drawBits(samplePrefix(seed, step, sample, 99), element),
                    ::pdc::drawBits(seed, step, sample, 99, element));
}

/// Also of neighbours that begin at any element.
TEST(Random, DropsWhatTheCompilerDrops) {
  const uint64_t prefix = samplePrefix(42, 7, 3, 99);
  for (uint64_t first = 0; first < 9; ++first) {
    const DropoutBits row(prefix, first);
    for (int neighbour = 0; neighbour < 4; ++neighbour) {
      const uint32_t expected = ::pdc::dropoutBits(42, 7, 3, 99, first + neighbour);
      EXPECT_EQ(dropoutBitsOf(dropoutBits(prefix, first), neighbour), expected);
      EXPECT_EQ(row[neighbour], expected);
    }
    EXPECT_EQ(row[DropoutBits::kCount - 1],
              ::pdc::dropoutBits(42, 7, 3, 99, first + DropoutBits::kCount - 1));
  }
  for (double ratio : {0.0, 0.1, 0.5, 0.9999})
    EXPECT_EQ(dropoutThreshold(ratio), ::pdc::dropoutThreshold(ratio));
}

} // namespace pdc::runtime
