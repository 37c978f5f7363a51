#pragma once

#include "runtime/cuda/Kernels.h"
#include "testsuite/kernels/KernelMakers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

/// Kernels on 16 bits compute what they compute on f32 of the same values, and round it once. (What
/// they compute on f32 is held against the references in UnitTest.cpp.)
namespace pdc::narrow {

using runtime::BFloat16;
using runtime::Float16;

/// Values that both types hold.
template <class T> struct Both {
  std::vector<T> narrow;
  std::vector<float> wide;
  explicit Both(int64_t count, float from = -1, float to = 1) : narrow(size_t(count)) {
    static std::mt19937 random(1);
    std::uniform_real_distribution<float> drawn(from, to);
    for (T &value : narrow)
      wide.push_back(float(value = T(drawn(random))));
  }
};
inline std::vector<float> numbers(int64_t count) { return Both<BFloat16>(count, 0.5f, 2.0f).wide; }

struct Scratch {
  std::vector<float> bytes = std::vector<float>(1 << 20);
  runtime::Run run = started({});
  Scratch() { run.scratchBase = reinterpret_cast<std::byte *>(bytes.data()); }
};

template <class T>
void expectRounded(const std::vector<T> &narrow, const std::vector<float> &wide) {
  for (size_t i = 0; i < wide.size(); ++i)
    ASSERT_EQ(narrow[i], T(wide[i])) << "element " << i << ", in f32 " << wide[i];
}

/// call(run, result, operands...) with both kinds of operands; the result has `count` elements.
template <class T, class Call, class... Operands>
void expectRounds(int64_t count, Call call, const Operands &...operands) {
  Scratch scratch;
  std::vector<T> narrow(size_t(count), T(9.0f));
  std::vector<float> wide(size_t(count), 9);
  call(scratch.run, narrow.data(), operands.narrow.data()...);
  call(scratch.run, wide.data(), operands.wide.data()...);
  finish();
  expectRounded(narrow, wide);
}

template <class T> bool haveEqualBits(const std::vector<T> &a, const std::vector<T> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T> struct Narrow : ::testing::Test {};
using Types = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(Narrow, Types);

inline const runtime::Device device{1, 0};

} // namespace pdc::narrow
