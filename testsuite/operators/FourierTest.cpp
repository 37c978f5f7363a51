#include "testsuite/operators/Tape.h"

#include <complex>
#include <numbers>

/// Fourier transforms against their definition, number by number.
namespace pdc::test {

using Complex = std::complex<double>;

/// `samples` beyond those that there are are zeros.
static std::vector<Complex> transformed(std::vector<Complex> samples, int64_t length,
                                        bool inverse) {
  samples.resize(size_t(length));
  std::vector<Complex> found(samples.size());
  for (size_t k = 0; k < found.size(); ++k) {
    for (size_t n = 0; n < samples.size(); ++n)
      found[k] += samples[n] * std::polar(1.0, (inverse ? 2 : -2) * std::numbers::pi *
                                                   double(k * n) / double(length));
    if (inverse)
      found[k] /= double(length);
  }
  return found;
}

struct Transformation {
  Shape shape;
  int64_t axis, length; ///< 0: not given
  bool inverse = false, onesided = false;
};

static int64_t lengthOf(const Transformation &of) {
  const int64_t samples = of.shape[size_t(of.axis)];
  return of.length ? of.length : of.inverse && of.onesided ? 2 * (samples - 1) : samples;
}

/// The last dimension of samples in full is what operands that are left out mean.
static Case caseOf(const Transformation &of, const Tensor &x) {
  Case test = {
      "DFT", {{"inverse", int64_t(of.inverse)}, {"onesided", int64_t(of.onesided)}}, {x}, {0}};
  if (of.length || of.axis + 2 != x.type.rank())
    for (int64_t value : {lengthOf(of), of.axis})
      test.inputs.push_back(Tensor::scalar(ElementType::i64, double(value)));
  return test;
}

static void check(const Transformation &of) {
  Draw draw;
  const Tensor x = draw.reals(of.shape);
  const Tensor y = tapeValue(caseOf(of, x));
  const int64_t parts = of.shape.back(), samples = of.shape[size_t(of.axis)];
  const bool isSignal = of.inverse && of.onesided;
  const int64_t length = lengthOf(of);
  int64_t inner = 1, outer = 1;
  for (size_t d = 0; d + 1 < of.shape.size(); ++d)
    (d < size_t(of.axis) ? outer : inner) *= d == size_t(of.axis) ? 1 : of.shape[d];
  const int64_t frequencies = of.onesided && !of.inverse ? length / 2 + 1 : length,
                found = isSignal ? 1 : 2;
  ASSERT_EQ(y.type.elementCount(), outer * frequencies * inner * found);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      std::vector<Complex> row;
      for (int64_t n = 0; n < samples; ++n) {
        const double *at = &x.data[size_t(((o * samples + n) * inner + i) * parts)];
        row.push_back({at[0], parts == 2 ? at[1] : 0});
      }
      row.resize(size_t(isSignal ? length / 2 + 1 : length));
      if (isSignal) {
        // What a real signal has not: an imaginary mean, and one of the highest frequency.
        row[0] = row[0].real();
        if (length % 2 == 0)
          row.back() = row.back().real();
        for (int64_t k = length / 2 + 1; k < length; ++k)
          row.push_back(std::conj(row[size_t(length - k)]));
      }
      const std::vector<Complex> expected = transformed(row, length, of.inverse);
      for (int64_t k = 0; k < frequencies; ++k) {
        const double *at = &y.data[size_t(((o * frequencies + k) * inner + i) * found)];
        EXPECT_NEAR(at[0], expected[size_t(k)].real(), 1e-9 * double(length)) << k;
        EXPECT_NEAR(isSignal ? 0 : at[1], isSignal ? 0 : expected[size_t(k)].imag(),
                    1e-9 * double(length))
            << k;
      }
    }
}

TEST(Fourier, Transforms) {
  check({{2, 5, 1}, 1, 0});
  check({{2, 8, 2}, 1, 0});
  check({{3, 4, 2, 2}, 1, 0});
  check({{3, 4, 2, 1}, 0, 0});
  check({{2, 6, 2}, 1, 0, true});
  check({{2, 6, 1}, 1, 0, true});
  check({{2, 1, 2}, 1, 0});
}

TEST(Fourier, OfOtherLengths) {
  check({{2, 5, 2}, 1, 8});
  check({{2, 8, 2}, 1, 5});
  check({{2, 5, 1}, 1, 9, false, true});
  check({{2, 3, 2}, 1, 9, true, true});
  check({{2, 7, 2}, 1, 4, true, true});
}

TEST(Fourier, OfRealSignals) {
  for (int64_t length : {1, 2, 5, 8})
    check({{2, length, 1}, 1, 0, false, true});
  check({{2, 5, 2}, 1, 0, true, true});
  check({{2, 5, 2}, 1, 9, true, true});
  check({{2, 2, 3, 2}, 1, 0, true, true});
}

/// Made of shorter ones, except where the length is prime.
TEST(Fourier, LongTransforms) {
  check({{1, 513, 1}, 1, 0});
  check({{1, 1024, 2}, 1, 0});
  check({{2, 300, 2}, 1, 1000, true});
  check({{1, 1050, 1}, 1, 0, false, true});
  check({{1, 401, 2}, 1, 800, true, true});
  check({{1, 401, 2}, 1, 801, true, true});
  check({{1, 521, 1}, 1, 0, false, true});
}

TEST(Fourier, Gradients) {
  Draw draw;
  for (const Transformation &of : std::vector<Transformation>{{{2, 5, 1}, 1, 0},
                                                              {{2, 3, 2, 2}, 1, 5, true},
                                                              {{2, 6, 1}, 1, 0, false, true},
                                                              {{2, 4, 2}, 1, 7, true, true}})
    checkComposedGradient(caseOf(of, draw.reals(of.shape)), 1e-5);
  checkComposedGradient({"STFT",
                         {},
                         {draw.reals({2, 10, 1}), Tensor::scalar(ElementType::i64, 3),
                          draw.reals({4}), Tensor::scalar(ElementType::i64, 4)},
                         {0, 2}},
                        1e-5);
}

TEST(Fourier, Windows) {
  auto window = [](const char *name, int64_t periodic) {
    return tapeValue({name, {{"periodic", periodic}}, {Tensor::scalar(ElementType::i64, 8)}, {}})
        .data;
  };
  for (int64_t n = 0; n < 8; ++n)
    for (int64_t periodic : {0, 1}) {
      const double angle = 2 * std::numbers::pi * double(n) / double(7 + periodic);
      EXPECT_NEAR(window("HannWindow", periodic)[n], std::pow(std::sin(angle / 2), 2), 1e-12);
      EXPECT_NEAR(window("HammingWindow", periodic)[n], (25 - 21 * std::cos(angle)) / 46, 1e-12);
      EXPECT_NEAR(window("BlackmanWindow", periodic)[n],
                  0.42 - 0.5 * std::cos(angle) + 0.08 * std::cos(2 * angle), 1e-12);
    }
}

} // namespace pdc::test
