#include "runtime/Error.h"
#include "runtime/Tuning.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Workspace.h"
#include "testsuite/cuda/SaidTuning.h"
#include "testsuite/kernels/KernelMakers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

/// Matrix products with GELU, with its gradient and beside the sums of a factor's columns, as two
/// kernels and as one of the library's, against formulas in f64.
namespace pdc::fused {
namespace {

using runtime::BFloat16;
using runtime::Float16;
using runtime::MatrixProductFields;
using runtime::Tuning;

double gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3))));
}
/// By differences.
double geluDerivative(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

/// As the arena holds it; what a kernel does not write stays 9.
template <class T> struct Stored {
  explicit Stored(int64_t count)
      : bytes(size_t(count) * sizeof(T) + 64), count(size_t(count)),
        data(reinterpret_cast<T *>((reinterpret_cast<uintptr_t>(bytes.data()) + 63) / 64 * 64)) {
    std::fill_n(data, count, T(9.0f));
  }
  Stored(const Stored &) = delete;
  double operator[](int64_t i) const { return float(data[i]); }
  std::vector<float> values() const {
    std::vector<float> all;
    for (size_t i = 0; i < count; ++i)
      all.push_back(float(data[i]));
    return all;
  }
  void draw(float spread = 1) {
    static std::mt19937 random(3);
    std::uniform_real_distribution<float> drawn(-spread, spread);
    for (size_t i = 0; i < count; ++i)
      data[i] = T(drawn(random));
  }
  std::vector<std::byte> bytes;
  size_t count;
  T *data;
};

/// a of {2, 3, inner} and b, transposed or not.
constexpr int64_t kRows = 6, kInner = 40, kColumns = 16;

template <class T> class FusedProducts : public ::testing::Test, protected testing::SaidTuning {
protected:
  FusedProducts() : SaidTuning("fused", 3) {
    auto address = reinterpret_cast<uintptr_t>(workspace.data());
    run.scratchBase = workspace.data() + (64 - address % 64) % 64;
    a.draw(), b.draw(), bias.draw(), argument.draw(3);
  }
  ~FusedProducts() override { unsetenv("HOST_CUBLASLT_PLAIN"); }

  static const char *compute() {
    return std::is_same_v<T, BFloat16> ? "bf16" : std::is_same_v<T, Float16> ? "fp16" : "fp32";
  }
  /// Of the largest value; the spread of f32 is that of its sums.
  static double rounding() {
    return std::is_same_v<T, BFloat16> ? 0x1p-7 : std::is_same_v<T, Float16> ? 0x1p-10 : 1e-6;
  }
  static MatrixProductFields fields(bool hasBias, bool transB = false) {
    MatrixProductFields f;
    f.a = {2, 3, kInner}, f.output = {2, 3, kColumns};
    if (transB)
      f.b = {kColumns, kInner};
    else
      f.b = {kInner, kColumns};
    if (hasBias)
      f.bias = {1, 1, kColumns};
    f.alpha = 0.5, f.compute = compute(), f.name = "asked", f.transB = transB;
    return f;
  }
  double product(int64_t row, int64_t column, bool transB, bool hasBias) const {
    double sum = 0;
    for (int64_t k = 0; k < kInner; ++k)
      sum += a[row * kInner + k] * b[transB ? column * kInner + k : k * kColumns + column];
    return 0.5 * sum + (hasBias ? bias[column] : 0);
  }
  template <class Expected>
  void expectNear(const Stored<T> &found, Expected expected, const char *what) const {
    double largest = 0;
    for (int64_t i = 0; i < kRows * kColumns; ++i)
      largest = std::max(largest, std::abs(expected(i / kColumns, i % kColumns)));
    for (int64_t i = 0; i < kRows * kColumns; ++i)
      ASSERT_NEAR(found[i], expected(i / kColumns, i % kColumns), rounding() * largest)
          << what << ", element " << i;
  }
  runtime::Device device(Tuning *by) const {
    return {1, int64_t(workspace.size()) - 64, false, by};
  }
  void takeTogether() { timed = 0, seconds = {2, 1}; }

  std::vector<std::byte> workspace = std::vector<std::byte>(1 << 17);
  runtime::Run run = started({});
  Stored<T> a{kRows * kInner}, b{kInner * kColumns}, bias{kColumns}, argument{kRows * kColumns};
};
using Types = ::testing::Types<float, BFloat16, Float16>;
TYPED_TEST_SUITE(FusedProducts, Types);

TYPED_TEST(FusedProducts, ComputeGelu) {
  for (bool hasBias : {false, true})
    for (bool transB : {false, true})
      for (bool isKept : {false, true}) {
        MatrixProductFields f = this->fields(hasBias, transB);
        f.keepsArgument = isKept;
        std::vector<std::vector<float>> found;
        for (Tuning *by : {static_cast<Tuning *>(nullptr), &*this->tuning}) {
          this->takeTogether();
          runtime::cuda::GeluProduct kernel(this->device(by), f);
          Stored<TypeParam> kept(kRows * kColumns), y(kRows * kColumns);
          const void *left = this->a.data, *right = this->b.data, *added = this->bias.data;
          void *of = kept.data, *to = y.data;
          if (hasBias && isKept)
            kernel(this->run, left, right, added, of, to);
          else if (hasBias)
            kernel(this->run, left, right, added, to);
          else if (isKept)
            kernel(this->run, left, right, of, to);
          else
            kernel(this->run, left, right, to);
          finish();
          EXPECT_EQ(this->timed, by ? 2u : 0u);
          auto product = [&](int64_t row, int64_t column) {
            return this->product(row, column, transB, hasBias);
          };
          this->expectNear(
              y, [&](auto... at) { return gelu(product(at...)); }, "y");
          if (isKept)
            this->expectNear(kept, product, "what is kept");
          found.push_back(y.values());
        }
        EXPECT_NE(found[0], found[1]) << "the second was not made by the library";
      }
}

TYPED_TEST(FusedProducts, ComputeItsGradient) {
  for (bool transB : {false, true}) {
    std::vector<std::vector<float>> found;
    for (Tuning *by : {static_cast<Tuning *>(nullptr), &*this->tuning}) {
      this->takeTogether();
      runtime::cuda::GeluGradientProduct kernel(this->device(by), this->fields(false, transB));
      Stored<TypeParam> y(kRows * kColumns);
      kernel(this->run, this->a.data, this->b.data, this->argument.data, y.data);
      finish();
      EXPECT_EQ(this->timed, by ? 2u : 0u);
      this->expectNear(
          y,
          [&](int64_t row, int64_t column) {
            return this->product(row, column, transB, false) *
                   geluDerivative(this->argument[row * kColumns + column]);
          },
          "y");
      found.push_back(y.values());
    }
    EXPECT_NE(found[0], found[1]) << "the second was not made by the library";
  }
}

/// Gradients of a weight of {columns, inner} or {inner, columns}: the product of what came in and
/// the output's gradient, whose columns are summed. Twice, the second time added to the first.
TYPED_TEST(FusedProducts, SumColumns) {
  constexpr int64_t kBatch = 70;
  for (const char *summed : {"a", "b"}) {
    MatrixProductFields f;
    f.a = {kBatch, kInner}, f.b = {kBatch, kColumns}, f.output = {kInner, kColumns};
    f.columnSums = summed, f.compute = this->compute(), f.name = "asked";
    f.result = "fp32", f.sums = 1, f.transA = 1;
    Stored<TypeParam> left(kBatch * kInner), right(kBatch * kColumns);
    left.draw(), right.draw();
    const bool isOfA = f.columnSums == std::string("a");
    const Stored<TypeParam> &factor = isOfA ? left : right;
    const int64_t columns = isOfA ? kInner : kColumns;
    std::vector<std::vector<float>> found;
    for (Tuning *by : {static_cast<Tuning *>(nullptr), &*this->tuning}) {
      this->takeTogether();
      runtime::cuda::SummedProduct kernel(this->device(by), f);
      Stored<float> sums(columns), y(kInner * kColumns);
      for (int turn = 0; turn < 2; ++turn) {
        kernel(this->run, left.data, right.data, sums.data, y.data, turn > 0);
        finish();
        EXPECT_EQ(this->timed, by ? 2u : 0u);
        for (int64_t column = 0; column < columns; ++column) {
          double expected = 0;
          for (int64_t row = 0; row < kBatch; ++row)
            expected += factor[row * columns + column];
          ASSERT_NEAR(sums[column], (turn + 1) * expected, 1e-4) << "column " << column;
        }
        for (int64_t i = 0; i < kInner * kColumns; ++i) {
          double expected = 0;
          for (int64_t row = 0; row < kBatch; ++row)
            expected += left[row * kInner + i / kColumns] * right[row * kColumns + i % kColumns];
          ASSERT_NEAR(y[i], (turn + 1) * expected, 1e-4) << "element " << i;
        }
      }
      found.push_back(sums.values());
    }
    // Of 16 bits they are exact.
    if (std::is_same_v<TypeParam, float>) {
      EXPECT_NE(found[0], found[1]) << "the second was not made by the library";
    }
  }
}

/// Sums are not written again and again: what only adds is not measured.
TYPED_TEST(FusedProducts, MeasureNoSums) {
  MatrixProductFields f;
  f.a = {kRows, kInner}, f.b = {kRows, kColumns}, f.output = {kInner, kColumns};
  f.columnSums = "b", f.compute = this->compute(), f.name = "asked";
  f.result = "fp32", f.sums = 1, f.transA = 1;
  Stored<TypeParam> left(kRows * kInner), right(kRows * kColumns);
  left.draw(), right.draw();
  runtime::cuda::SummedProduct kernel(this->device(&*this->tuning), f);
  Stored<float> sums(kColumns), y(kInner * kColumns);
  kernel(this->run, left.data, right.data, sums.data, y.data, true);
  finish();
  EXPECT_EQ(this->timed, 0u);
  double expected = 9;
  for (int64_t row = 0; row < kRows; ++row)
    expected += right[row * kColumns];
  EXPECT_NEAR(sums[0], expected, 1e-5);
}

/// Each way has its own ranking of the library's kernels, of which three are measured: those of the
/// second are not known from the first.
TYPED_TEST(FusedProducts, MeasureEachWay) {
  setenv("HOST_CUBLASLT_KERNELS", "3", 1);
  this->seconds = {3, 1, 2, 3, 2, 1, 2, 1};
  runtime::cuda::GeluGradientProduct kernel(this->device(&*this->tuning), this->fields(false));
  Stored<TypeParam> y(kRows * kColumns);
  kernel(this->run, this->a.data, this->b.data, this->argument.data, y.data);
  unsetenv("HOST_CUBLASLT_KERNELS");
  finish();
  EXPECT_EQ(this->timed, 8u);
}

/// What breaks the device while a way measures its own kernels is told with what to do.
TYPED_TEST(FusedProducts, TellWhatBreaks) {
  setenv("HOST_CUBLASLT_KERNELS", "3", 1);
  const Tuning::Clock breaks = [](const std::function<void()> &) -> double {
    throw runtime::Error("the device is broken");
  };
  Tuning by("a card", breaks, this->folder.string(), 0);
  runtime::cuda::GeluGradientProduct kernel(this->device(&by), this->fields(false));
  unsetenv("HOST_CUBLASLT_KERNELS");
  Stored<TypeParam> y(kRows * kColumns);
  try {
    kernel(this->run, this->a.data, this->b.data, this->argument.data, y.data);
    FAIL() << "it ran";
  } catch (const std::exception &error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("--tune: kernel 0 for cuBLASLt")) << text;
    EXPECT_NE(text.find("the device is broken; leave --tune out"), std::string::npos) << text;
  }
  finish();
}

/// Where the library has no such kernel or its own is slower: two, whose bits are those without
/// measuring.
TYPED_TEST(FusedProducts, StayApart) {
  std::vector<std::vector<float>> found;
  for (const char *how : {"not measured", "slower", "refused"}) {
    const bool isRefused = how == std::string("refused");
    this->timed = 0, this->seconds = {1, 2};
    this->tuning.emplace("a card", this->clock, this->folder.string(), 0);
    if (isRefused)
      setenv("HOST_CUBLASLT_PLAIN", "1", 1);
    Tuning *by = how == std::string("not measured") ? nullptr : &*this->tuning;
    runtime::cuda::GeluGradientProduct kernel(this->device(by), this->fields(false));
    Stored<TypeParam> y(kRows * kColumns);
    kernel(this->run, this->a.data, this->b.data, this->argument.data, y.data);
    finish();
    EXPECT_EQ(this->timed, how == std::string("slower") ? 2u : 0u) << how;
    found.push_back(y.values());
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0], found[2]);
}

/// The bits of a product and a loop of generated code behind it.
TYPED_TEST(FusedProducts, RoundWhatIsKept) {
  MatrixProductFields f = this->fields(true);
  Stored<TypeParam> plain(kRows * kColumns), kept(kRows * kColumns), y(kRows * kColumns);
  runtime::cuda::MatrixProduct product(this->device(nullptr), f);
  product(this->run, this->a.data, this->b.data, this->bias.data, plain.data);
  f.keepsArgument = 1;
  runtime::cuda::GeluProduct kernel(this->device(nullptr), f);
  kernel(this->run, this->a.data, this->b.data, this->bias.data, kept.data, y.data);
  finish();
  EXPECT_EQ(plain.values(), kept.values());
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    const auto x = float(kept[i]);
    const float of = x * (1 + std::tanh(0.79788456080f * (x + 0.044715f * x * x * x))) / 2;
    ASSERT_EQ(float(y[i]), float(TypeParam(of))) << "element " << i;
  }
}

} // namespace
} // namespace pdc::fused
