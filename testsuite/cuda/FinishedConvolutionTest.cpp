#include "runtime/Error.h"
#include "runtime/Tuning.h"
#include "testsuite/cuda/Rounding.h"
#include "testsuite/cuda/SaidTuning.h"

#include <cstdlib>
#include <memory>

/// A convolution with its bias and relu, as a kernel of cuDNN's and a pass over the image, and as
/// one of its kernels.
namespace pdc::narrow {
namespace {

using runtime::ConvolutionFields;
using runtime::Tuning;
using runtime::cuda::Convolution;

/// Of two dimensions, with groups and strides; of one; of three.
ConvolutionFields fieldsOf(int rank, const char *compute, bool relu) {
  ConvolutionFields f;
  f.name = "asked", f.compute = compute, f.bias = 1, f.relu = relu;
  if (rank == 4) {
    f.input = {3, 8, 5, 7}, f.weight = {10, 4, 3, 3}, f.output = {3, 10, 3, 4};
    f.groups = 2, f.strides = {2, 2}, f.padsBegin = f.padsEnd = {1, 1};
  } else if (rank == 3) {
    f.input = {2, 4, 9}, f.weight = {6, 4, 3}, f.output = {2, 6, 9};
    f.strides = {1}, f.padsBegin = f.padsEnd = {1};
  } else {
    f.input = {2, 3, 4, 5, 3}, f.weight = {5, 3, 2, 2, 2}, f.output = {2, 5, 3, 4, 2};
    f.strides = {1, 1, 1}, f.padsBegin = f.padsEnd = {0, 0, 0};
  }
  f.dilations = std::vector<int64_t>(size_t(rank) - 2, 1);
  return f;
}

int64_t countOf(const runtime::Dimensions &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

template <class T> constexpr const char *kCompute = "tf32";
template <> constexpr const char *kCompute<BFloat16> = "bf16";
template <> constexpr const char *kCompute<Float16> = "fp16";

class FinishedConvolutionTest : public ::testing::Test, protected testing::SaidTuning {
protected:
  FinishedConvolutionTest() : SaidTuning("finished", 2) {}
  ~FinishedConvolutionTest() override { allow(); }
  static void refuse(const char *kind) { setenv("HOST_CUDNN_REFUSES", kind, 1); }
  static void allow() { unsetenv("HOST_CUDNN_REFUSES"); }
  /// Two engines of the convolution, two of the one kernel, then the ways.
  void say(double together) { timed = 0, seconds = {1, 1, 1, 1, 2, together}; }

  runtime::Device deviceWith(Tuning *by) const {
    return {1, int64_t(sizeof(float) * scratch.bytes.size()), false, by};
  }
  /// The kernel, its operands and its result, at multiples of what the library is promised.
  template <class T> struct Made {
    explicit Made(const runtime::Device &device, const ConvolutionFields &f)
        : kernel(device, f), x(countOf(f.input)), w(countOf(f.weight)), bias(numbers(f.output[1])),
          y(size_t(countOf(f.output)), T(9.0f)) {
      for (size_t channel = 0; channel < bias.size(); ++channel)
        bias[channel] -= 1.25f;
    }
    Convolution kernel;
    Both<T> x, w;
    std::vector<float> bias;
    std::vector<T> y;
  };
  template <class T> std::vector<T> call(Made<T> &made) {
    made.kernel(scratch.run, made.x.narrow.data(), made.w.narrow.data(), made.bias.data(),
                made.y.data());
    finish();
    return made.y;
  }
  /// In f32 throughout, of the same operands.
  template <class T> std::vector<float> wide(const Made<T> &made, ConvolutionFields f) {
    f.compute = "fp32";
    std::vector<float> y(made.y.size());
    Convolution(deviceWith(nullptr), f)(scratch.run, made.x.wide.data(), made.w.wide.data(),
                                        made.bias.data(), y.data());
    finish();
    return y;
  }

  /// One kernel rounds once.
  template <class T> void expectBothWays(int rank, bool relu) {
    const ConvolutionFields f = fieldsOf(rank, kCompute<T>, relu);
    SCOPED_TRACE(std::string(f.compute) + ", " + std::to_string(rank) + " dimensions");
    tuning.emplace("a card", clock, folder.string(), 0);
    say(1);
    Made<T> made(deviceWith(&*tuning), f);
    const std::vector<T> together = call(made);
    EXPECT_EQ(timed, 6u);
    const std::vector<float> expected = wide(made, f);
    expectRounded(together, expected);
    EXPECT_EQ(together, call(made)) << "other bits at repeat";
    tuning.emplace("a card", clock, folder.string(), 0);
    say(3);
    Made<T> other(deviceWith(&*tuning), f);
    other.x = made.x, other.w = made.w, other.bias = made.bias;
    const std::vector<T> apart = call(other);
    EXPECT_EQ(apart == together, sizeof(T) == 4);
    for (size_t i = 0; i < apart.size(); ++i)
      ASSERT_NEAR(float(apart[i]), expected[i], 0x1p-5) << "element " << i;
    const auto zeros = std::ranges::count(together, T(0.0f));
    EXPECT_TRUE(relu ? zeros > 0 : zeros == 0) << zeros << " zeros";
  }

  Scratch scratch;
};

TEST_F(FinishedConvolutionTest, ComputesBothWays) {
  for (int rank : {3, 4, 5})
    for (bool relu : {false, true}) {
      expectBothWays<float>(rank, relu);
      expectBothWays<BFloat16>(rank, relu);
      expectBothWays<Float16>(rank, relu);
    }
}

/// Nothing is measured where there is one way: without a bias, in plain f32, without a tuning.
TEST_F(FinishedConvolutionTest, MeasuresWhereThereIsAChoice) {
  ConvolutionFields plain = fieldsOf(4, "fp32", true);
  Made<float> inPlain(deviceWith(&*tuning), plain);
  call(inPlain);
  EXPECT_EQ(timed, 2u);
  timed = 0;
  ConvolutionFields without = fieldsOf(4, "tf32", true);
  without.bias = 0;
  Made<float> unbiased(deviceWith(&*tuning), without);
  unbiased.kernel(scratch.run, unbiased.x.narrow.data(), unbiased.w.narrow.data(),
                  unbiased.y.data());
  finish();
  EXPECT_EQ(timed, 2u);
  EXPECT_GT(std::ranges::count(unbiased.y, 0.0f), 0);
}

/// Equal ones share what they measured; another relu or bias is another problem.
TEST_F(FinishedConvolutionTest, MeasuresAProblemOnce) {
  const ConvolutionFields f = fieldsOf(4, "bf16", true);
  say(1);
  Made<BFloat16> first(deviceWith(&*tuning), f), second(deviceWith(&*tuning), f);
  const std::vector<BFloat16> found = call(first);
  EXPECT_EQ(timed, 6u);
  second.x = first.x, second.w = first.w, second.bias = first.bias;
  EXPECT_EQ(call(second), found);
  EXPECT_EQ(timed, 6u);
  ConvolutionFields linear = f;
  linear.relu = 0;
  Made<BFloat16> third(deviceWith(&*tuning), linear);
  third.x = first.x, third.w = first.w, third.bias = first.bias;
  const std::vector<BFloat16> unrectified = call(third);
  EXPECT_GT(timed, 6u); // the convolution by itself is the same
  EXPECT_NE(unrectified, found);
}

/// Another run makes and takes what this one has kept.
TEST_F(FinishedConvolutionTest, TakesTheFasterWayAgain) {
  const ConvolutionFields f = fieldsOf(4, "fp16", true);
  for (bool together : {false, true}) {
    const char *card = together ? "a card" : "another";
    tuning.emplace(card, clock, folder.string(), 0);
    say(together ? 1 : 3);
    Made<Float16> first(deviceWith(&*tuning), f);
    const std::vector<Float16> found = call(first);
    ::testing::internal::CaptureStderr();
    tuning->keep();
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("measured 6 kernels"),
              std::string::npos);
    tuning.emplace(card, clock, folder.string(), 3);
    if (!together)
      refuse("fused plans"); // nor are they made
    Made<Float16> again(deviceWith(&*tuning), f);
    again.x = first.x, again.w = first.w, again.bias = first.bias;
    EXPECT_EQ(call(again), found);
    EXPECT_EQ(timed, 6u);
    refuse("fused");
    if (together) {
      EXPECT_ANY_THROW(call(again));
    } else {
      EXPECT_EQ(call(again), found);
    }
    allow();
  }
}

/// Where the library has no such kernel, or none that runs: the bits of a run that measures
/// nothing.
TEST_F(FinishedConvolutionTest, DoesWithout) {
  const ConvolutionFields f = fieldsOf(4, "bf16", true);
  Made<BFloat16> plain(deviceWith(nullptr), f);
  const std::vector<BFloat16> apart = call(plain);
  for (const char *kind : {"fused plans", "fused"}) {
    tuning.emplace(kind, clock, folder.string(), 0);
    say(1);
    refuse(kind);
    Made<BFloat16> made(deviceWith(&*tuning), f);
    made.x = plain.x, made.w = plain.w, made.bias = plain.bias;
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(call(made), apart);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    allow();
  }
}

} // namespace
} // namespace pdc::narrow
