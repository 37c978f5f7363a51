#include "runtime/cuda/Windows.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>
#include <vector>

namespace pdc {

using runtime::cuda::Divisor;
using runtime::cuda::Windows;

TEST(Divisor, Divides) {
  constexpr int64_t end = int64_t(1) << 31;
  std::mt19937 random(3);
  std::vector<int64_t> divisors = {end - 1, end - 2, end / 2, end / 2 + 1};
  for (int64_t d = 1; d < 300; ++d)
    divisors.push_back(d);
  for (int i = 0; i < 3000; ++i)
    divisors.push_back(1 + int64_t(random() % (uint32_t(1) << (i % 31))));
  for (int64_t d : divisors) {
    const Divisor<int32_t> divisor(d);
    std::vector<int64_t> numbers = {
        0, 1, d - 1, d, end - 1, (end - 1) / d * d, (end - 1) / d * d - 1};
    for (int i = 0; i < 20; ++i)
      numbers.push_back(int64_t(random() % uint32_t(end)));
    for (int64_t n : numbers)
      ASSERT_EQ(divisor.quotient(int32_t(n)), n / d) << n << " / " << d;
  }
}

namespace {

/// Each window, tap and pixel that belong together, and how many taps of the window lie inside.
using Pairs = std::set<std::array<int64_t, 4>>;

runtime::PoolingFields fieldsOf(int64_t size, int64_t kernel, int64_t stride, int64_t pad) {
  runtime::PoolingFields f;
  f.input = {2, 1, size, size + 3}, f.kernel = {kernel, kernel + 1};
  f.strides = {stride, stride + 1}, f.padsBegin = {pad, pad};
  f.output = {2, 1, (size + 2 * pad - kernel) / stride + 1,
              (size + 2 + 2 * pad - kernel) / (stride + 1) + 1};
  return f;
}

/// By the definition, without pads.
Pairs expectedPairs(const runtime::PoolingFields &f) {
  Pairs pairs;
  for (int64_t b = 0; b < f.output[0]; ++b)
    for (int64_t i = 0; i < f.output[2]; ++i)
      for (int64_t j = 0; j < f.output[3]; ++j) {
        std::vector<std::array<int64_t, 2>> taps; // tap, pixel
        for (int64_t r = 0; r < f.kernel[0]; ++r)
          for (int64_t c = 0; c < f.kernel[1]; ++c) {
            const int64_t y = i * f.strides[0] - f.padsBegin[0] + r,
                          x = j * f.strides[1] - f.padsBegin[1] + c;
            if (y >= 0 && y < f.input[2] && x >= 0 && x < f.input[3])
              taps.push_back({r * f.kernel[1] + c, (b * f.input[2] + y) * f.input[3] + x});
          }
        for (auto [tap, pixel] : taps)
          pairs.insert({(b * f.output[2] + i) * f.output[3] + j, tap, pixel, int64_t(taps.size())});
      }
  return pairs;
}

template <class Index> void expectPairs(const runtime::PoolingFields &f) {
  const Windows<Index> windows(f);
  const Pairs expected = expectedPairs(f);
  Pairs byWindow, byPixel;
  for (int64_t window = 0; window < f.output[0] * f.output[2] * f.output[3]; ++window) {
    std::vector<std::array<int64_t, 2>> taps;
    const int64_t inside = windows.overTaps(Index(window), [&](Index pixel, Index tap) {
      taps.push_back({tap, pixel});
    });
    for (auto [tap, pixel] : taps)
      byWindow.insert({window, tap, pixel, inside});
  }
  for (int64_t pixel = 0; pixel < f.input[0] * f.input[2] * f.input[3]; ++pixel)
    windows.overWindows(Index(pixel), [&](Index window, Index tap, Index i, Index j, Index k) {
      byPixel.insert({window, tap, pixel, windows.tapsInside(i, j, k)});
    });
  EXPECT_EQ(byWindow, expected);
  EXPECT_EQ(byPixel, expected);
}

} // namespace

/// Windows that overlap, touch, and leave pixels between them.
TEST(PooledWindows, BelongToPixels) {
  for (int64_t kernel : {1, 2, 3})
    for (int64_t stride : {1, 2, 4})
      for (int64_t pad = 0; pad < kernel; ++pad) {
        const runtime::PoolingFields f = fieldsOf(8, kernel, stride, pad);
        EXPECT_TRUE(runtime::cuda::areCountedIn32Bits(f));
        expectPairs<int32_t>(f);
        expectPairs<int64_t>(f);
      }
}

TEST(PooledWindows, AreCountedIn64BitsWhereTheyAreMany) {
  runtime::PoolingFields f = fieldsOf(8, 2, 2, 0);
  f.input = {int64_t(1) << 20, 1024, 8, 11};
  EXPECT_FALSE(runtime::cuda::areCountedIn32Bits(f));
  f = fieldsOf(8, 2, 2, 0);
  f.strides = {int64_t(1) << 28, 1};
  EXPECT_FALSE(runtime::cuda::areCountedIn32Bits(f));
}

} // namespace pdc
