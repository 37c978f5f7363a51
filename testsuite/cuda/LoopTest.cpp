#include "runtime/cuda/Loop.h"
#include "testsuite/cuda/Rounding.h"

/// Loops of generated code, by eight where any array has 16 bits: the bits of one element after the
/// other.
namespace pdc::narrow {

namespace {

namespace cuda = runtime::cuda;

struct Fma {
  PDC_EITHER float operator()(float a, float b, float c) const { return a * b + c; }
};

/// y[i][j] = a[i][j] b[j] + c[i], of which `Apart` elements of a are from one row to the next.
template <class A, class Y, int64_t Rows, int64_t Columns, int64_t Apart> void expectBroadcast() {
  const Both<A> a(Rows * Apart), b(Columns);
  const Both<BFloat16> c(Rows);
  std::vector<Y> y(size_t(Rows * Columns), Y(9.0f)), expected = y;
  for (int64_t i = 0; i < Rows; ++i)
    for (int64_t j = 0; j < Columns; ++j)
      expected[size_t(i * Columns + j)] =
          Y(Fma()(a.wide[size_t(i * Apart + j)], b.wide[size_t(j)], c.wide[size_t(i)]));
  Scratch scratch;
  cuda::broadcast(scratch.run, cuda::Extents<Rows, Columns>(), Fma(), cuda::into(y.data()),
                  cuda::strided<Apart, 1>(a.narrow.data()), cuda::strided<0, 1>(b.narrow.data()),
                  cuda::strided<1, 0>(c.wide.data()));
  finish();
  EXPECT_EQ(y, expected) << Rows << " x " << Columns << ", " << Apart << " apart";
}

struct SumAndDifference {
  PDC_EITHER auto operator()(float a, float b) const { return cuda::results(a + b, a - b); }
};

/// The right part of each row of y is the sum of both parts of x's, the left one their difference;
/// `Apart` from one row to the next.
template <class X, class Y, int64_t Rows, int64_t Columns, int64_t Apart> void expectParts() {
  const Both<X> x(Rows * Apart);
  std::vector<Y> y(size_t(Rows * Apart), Y(9.0f)), expected = y;
  for (int64_t i = 0; i < Rows; ++i)
    for (int64_t j = 0; j < Columns; ++j) {
      const auto at = size_t(i * Apart + j);
      expected[at + Columns] = Y(x.wide[at] + x.wide[at + Columns]);
      expected[at] = Y(x.wide[at] - x.wide[at + Columns]);
    }
  Scratch scratch;
  cuda::broadcast(
      scratch.run, cuda::Extents<Rows, Columns>(), SumAndDifference(),
      cuda::into(cuda::part<Columns, Apart, 1>(y.data()), cuda::part<0, Apart, 1>(y.data())),
      cuda::part<0, Apart, 1>(x.narrow.data()), cuda::part<Columns, Apart, 1>(x.narrow.data()));
  finish();
  EXPECT_EQ(y, expected) << Rows << " x " << Columns << ", " << Apart << " apart";
}

struct Four {
  PDC_EITHER auto operator()(float a, float b, float c, float d) const {
    return cuda::results(a + b, c - d, a * d, b - c);
  }
};

/// Of four parts of each row, and of four arrays.
template <class T, int64_t Columns> void expectFour() {
  constexpr int64_t rows = 3, apart = 4 * Columns;
  const Both<T> x(rows * apart);
  std::vector<T> y(size_t(rows * apart), T(9.0f)), expected = y;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < Columns; ++j) {
      const auto at = [&](int64_t part) { return size_t(i * apart + part * Columns + j); };
      const auto made = Four()(x.wide[at(0)], x.wide[at(1)], x.wide[at(2)], x.wide[at(3)]);
      expected[at(0)] = T(made.first);
      expected[at(1)] = T(made.second);
      expected[at(2)] = T(made.third);
      expected[at(3)] = T(made.fourth);
    }
  using cuda::part;
  Scratch scratch;
  cuda::broadcast(
      scratch.run, cuda::Extents<rows, Columns>(), Four(),
      cuda::into(part<0, apart, 1>(y.data()), part<Columns, apart, 1>(y.data()),
                 part<2 * Columns, apart, 1>(y.data()), part<3 * Columns, apart, 1>(y.data())),
      part<0, apart, 1>(x.narrow.data()), part<Columns, apart, 1>(x.narrow.data()),
      part<2 * Columns, apart, 1>(x.narrow.data()), part<3 * Columns, apart, 1>(x.narrow.data()));
  finish();
  EXPECT_EQ(y, expected) << Columns;
  // One part behind the other, which begin at groups where they fill some.
  std::vector<T> a(Columns), b(Columns), c(Columns), d(Columns);
  cuda::loop(scratch.run, Columns, Four(), cuda::into(a.data(), b.data(), c.data(), d.data()),
             x.narrow.data(), x.narrow.data(), x.narrow.data(), x.narrow.data());
  finish();
  for (int64_t i = 0; i < Columns; ++i) {
    const float value = x.wide[size_t(i)];
    const auto made = Four()(value, value, value, value);
    EXPECT_TRUE(a[size_t(i)] == T(made.first) && b[size_t(i)] == T(made.second) &&
                c[size_t(i)] == T(made.third) && d[size_t(i)] == T(made.fourth))
        << i;
  }
}

} // namespace

TYPED_TEST(Narrow, LoopsOfFourResults) {
  expectFour<TypeParam, 16>();
  expectFour<TypeParam, 12>();
  expectFour<TypeParam, 7>();
}

/// Parts of whole eights, of whole fours, and of neither; with a rest of the row behind them.
TYPED_TEST(Narrow, LoopsOverParts) {
  expectParts<TypeParam, TypeParam, 3, 16, 32>();
  expectParts<TypeParam, float, 3, 16, 32>();
  expectParts<TypeParam, TypeParam, 5, 4, 8>();
  expectParts<TypeParam, TypeParam, 5, 12, 28>();
  expectParts<TypeParam, TypeParam, 5, 7, 14>();
  expectParts<TypeParam, TypeParam, 4, 8, 17>();
}

/// Rows of whole eights, of whole fours, and of neither; eights that do not begin at one.
TYPED_TEST(Narrow, BroadcastsByGroups) {
  expectBroadcast<TypeParam, TypeParam, 3, 16, 16>();
  expectBroadcast<TypeParam, float, 3, 16, 24>();
  expectBroadcast<TypeParam, TypeParam, 3, 16, 20>();
  expectBroadcast<TypeParam, TypeParam, 5, 12, 12>();
  expectBroadcast<TypeParam, TypeParam, 6, 12, 16>();
  expectBroadcast<TypeParam, TypeParam, 5, 7, 7>();
  expectBroadcast<TypeParam, TypeParam, 5, 16, 18>();
}

TYPED_TEST(Narrow, LoopsByGroups) {
  for (int64_t count : {1, 3, 4, 7, 8, 9, 16, 17, 2047, 2048, 2052}) {
    const Both<TypeParam> a(count), b(count), c(1);
    std::vector<TypeParam> y(size_t(count) + 1, TypeParam(9.0f)), expected = y;
    std::vector<float> wide(size_t(count) + 1, 9), expectedWide = wide;
    for (size_t i = 0; i < size_t(count); ++i) {
      expectedWide[i] = Fma()(a.wide[i], b.wide[i], c.wide[0]);
      expected[i] = TypeParam(expectedWide[i]);
    }
    Scratch scratch;
    cuda::loop(scratch.run, count, Fma(), cuda::into(y.data()), a.narrow.data(), b.wide.data(),
               cuda::number(c.wide.data()));
    cuda::loop(scratch.run, count, Fma(), cuda::into(wide.data()), a.wide.data(), b.wide.data(),
               cuda::number(c.wide.data()));
    std::vector<TypeParam> narrowSum = y;
    std::vector<float> wideSum = wide;
    cuda::loop(
        scratch.run, count, [](float a, float b) { return cuda::results(a + b, a + b); },
        cuda::into(wideSum.data(), narrowSum.data()), a.narrow.data(), b.wide.data());
    finish();
    for (size_t i = 0; i < size_t(count); ++i) {
      EXPECT_EQ(wideSum[i], a.wide[i] + b.wide[i]);
      EXPECT_EQ(narrowSum[i], TypeParam(wideSum[i]));
    }
    EXPECT_EQ(narrowSum.back(), TypeParam(9.0f)); // behind the last one
    EXPECT_EQ(y, expected) << count;
    EXPECT_EQ(wide, expectedWide) << count;
  }
}

/// As PyTorch has them, whose pow of these exponents is no pow.
TEST(KnownPowers, AreProductsAndRoots) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (float x : {-infinity, -3.0f, -0.0f, 0.0f, 0.25f, 7.0f, infinity}) {
    EXPECT_EQ(cuda::knownPower(x, 1.0f), x);
    EXPECT_EQ(cuda::knownPower(x, 2.0f), x * x);
    EXPECT_EQ(cuda::knownPower(x, 3.0f), x * x * x);
    EXPECT_EQ(cuda::knownPower(x, -1.0f), 1 / x);
    for (float exponent : {0.5f, -0.5f}) {
      const float root = exponent < 0 ? 1 / std::sqrt(x) : std::sqrt(x);
      if (x < 0)
        EXPECT_TRUE(std::isnan(cuda::knownPower(x, exponent))) << x;
      else
        EXPECT_EQ(cuda::knownPower(x, exponent), root) << x;
    }
    if (x >= 0)
      EXPECT_FLOAT_EQ(cuda::knownPower(x, 0.75f), std::pow(x, 0.75f));
  }
}

} // namespace pdc::narrow
