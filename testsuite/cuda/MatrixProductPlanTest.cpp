#include "runtime/Error.h"
#include "runtime/cuda/Kernels.h"
#include "testsuite/cuda/OnePixel.h"
#include "testsuite/kernels/KernelMakers.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

/// What cuBLASLt ranks first may fail when it runs, and it may have no kernel with an epilogue.
namespace pdc {
namespace {

using runtime::BFloat16;
using runtime::Float16;
using runtime::MatrixProductFields;
using runtime::cuda::MatrixProduct;
using testing::oneNumber;

/// The emulation has three kernels here, of which one may fail when it runs (HostProducts.cpp).
class MatrixProductPlanTest : public ::testing::Test {
protected:
  MatrixProductPlanTest() {
    run.scratchBase = workspace;
    setenv("HOST_CUBLASLT_KERNELS", "3", 1);
  }
  ~MatrixProductPlanTest() override {
    for (const char *name :
         {"HOST_CUBLASLT_KERNELS", "HOST_CUBLASLT_REFUSES", "HOST_CUBLASLT_BARE"})
      unsetenv(name);
  }
  static void refuse(const char *number) { setenv("HOST_CUBLASLT_REFUSES", number, 1); }

  void expectRuns(MatrixProduct &kernel) {
    y = 0;
    kernel(run, &x, &w, &y);
    finish();
    EXPECT_EQ(y, 6);
  }
  template <class Call> static void expectError(Call call) {
    try {
      call();
      ADD_FAILURE() << "it ran";
    } catch (const runtime::Error &error) {
      EXPECT_EQ(error.what(), std::string("unit 'asked': cublasLtMatmul failed: an error"));
    }
  }
  void expectError(MatrixProduct &kernel) {
    expectError([&] { kernel(run, &x, &w, &y); });
  }

  alignas(256) std::byte workspace[1 << 16];
  alignas(64) float x = 2, w = 3, y = 0;
  runtime::Run run = started({});
  runtime::Device device{1, sizeof workspace};
};

TEST_F(MatrixProductPlanTest, TakesTheNextWhereOneDoesNotRun) {
  MatrixProduct kernel(device, oneNumber());
  refuse("0");
  ::testing::internal::CaptureStderr();
  expectRuns(kernel);
  refuse("-1");
  expectRuns(kernel);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: unit 'asked': a kernel of cuBLASLt's does not run (an error); another takes "
            "its place\n");
  // A later failure is no reason to change the bits.
  refuse("1");
  expectError(kernel);
  refuse("0");
  expectRuns(kernel);
}

TEST_F(MatrixProductPlanTest, TellsTheErrorWhereNoneRuns) {
  setenv("HOST_CUBLASLT_KERNELS", "1", 1);
  MatrixProduct kernel(device, oneNumber());
  refuse("0");
  expectError(kernel);
}

TEST_F(MatrixProductPlanTest, KeepsTheFirstWhereBitsAreExact) {
  device.exact = true;
  MatrixProduct kernel(device, oneNumber());
  refuse("0");
  expectError(kernel);
}

/// What failed may have added a part, or written over what it reads.
TEST_F(MatrixProductPlanTest, KeepsTheFirstWhereItMayRunOnce) {
  MatrixProduct kernel(device, oneNumber());
  refuse("0");
  expectError([&] { kernel(run, &x, &w, &y, true); });
  expectError([&] { kernel(run, &y, &w, &y); });
  expectRuns(kernel);
  kernel(run, &x, &w, &y, true);
  finish();
  EXPECT_EQ(y, 12);
}

TEST_F(MatrixProductPlanTest, ChoosesNothingWhileItIsRecorded) {
  MatrixProduct kernel(device, oneNumber());
  refuse("0");
  cudaGraph_t graph = nullptr;
  cudaStreamBeginCapture(testStream(), cudaStreamCaptureModeThreadLocal);
  expectError(kernel);
  cudaStreamEndCapture(testStream(), &graph);
  if (graph)
    cudaGraphDestroy(graph);
  expectRuns(kernel);
}

TEST_F(MatrixProductPlanTest, SaysWhatItAskedFor) {
  setenv("HOST_CUBLASLT_KERNELS", "0", 1);
  MatrixProductFields f = oneNumber();
  f.a = {7, 5}, f.b = {5, 3}, f.output = {7, 3}, f.relu = 1, f.compute = "bf16";
  try {
    MatrixProduct kernel(device, f);
    FAIL() << "a kernel was made";
  } catch (const runtime::Error &error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("unit 'asked': cuBLASLt has no kernel (none fits) for cuBLASLt "))
        << text;
    EXPECT_NE(text.find("product in bf16: [7x5] by [5x3] to [7x3] in bf16"), std::string::npos)
        << text;
    EXPECT_NE(text.find("relu, finished apart"), std::string::npos) << text;
  }
}

/// A result of small integers, which are added and rectified by whom there is a kernel of.
template <class T, class Y> class Finished {
public:
  Finished(runtime::Device device, const runtime::Run &run, MatrixProductFields f)
      : device(device), run(run), fields(f) {
    fields.name = "asked", fields.relu = 1;
    fields.compute = std::is_same_v<T, BFloat16>  ? "bf16"
                     : std::is_same_v<T, Float16> ? "fp16"
                                                  : "fp32";
    if (!std::is_same_v<T, Y>)
      fields.result = "fp32";
    draw(a, kRows * kInner, 3), draw(b, kInner * kColumns, 5), draw(bias, kRows * kColumns, 2);
  }

  /// Before, y holds 1.
  std::vector<float> results(bool add) {
    std::vector<Y> y(size_t(kRows * kPitch) + 64, Y(1.0f));
    MatrixProduct kernel(device, fields);
    if (fields.bias.empty())
      kernel(run, aligned(a), aligned(b), aligned(y), add);
    else
      kernel(run, aligned(a), aligned(b), aligned(bias), aligned(y));
    finish();
    return {aligned(y), aligned(y) + kRows * kPitch};
  }
  std::vector<float> expected(bool add) {
    const int64_t pitch = fields.pitchY ? fields.pitchY : kColumns;
    std::vector<float> all(size_t(kRows * kPitch), 1.0f);
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t column = 0; column < kColumns; ++column) {
        const int64_t rowOfBias = fields.bias.empty() || fields.bias[0] == 1 ? 0 : row;
        float sum = fields.bias.empty() ? 0 : float(aligned(bias)[rowOfBias * kColumns + column]);
        for (int64_t k = 0; k < kInner; ++k)
          sum += float(aligned(a)[row * kInner + k]) * float(aligned(b)[k * kColumns + column]);
        all[size_t(row * pitch + column)] = std::max(0.0f, sum + float(add));
      }
    return all;
  }

  static constexpr int64_t kRows = 5, kInner = 9, kColumns = 13, kPitch = 16;

private:
  template <class E> static E *aligned(std::vector<E> &values) {
    return reinterpret_cast<E *>((reinterpret_cast<uintptr_t>(values.data()) + 63) / 64 * 64);
  }
  static void draw(std::vector<T> &values, int64_t count, int64_t step) {
    values.assign(size_t(count) + 64, T(0.0f));
    for (int64_t i = 0; i < count; ++i)
      aligned(values)[i] = T(float(i * step % 7 - 3));
  }
  const runtime::Device device;
  const runtime::Run run;
  MatrixProductFields fields;
  std::vector<T> a, b, bias;
};

/// With and without the library's epilogues; asking for one that it does not have finds nothing, or
/// is an error.
TEST_F(MatrixProductPlanTest, AddsAndRectifiesWhatTheLibraryDoesNot) {
  const std::vector<int64_t> ofColumns = {1, 13}, like = {5, 13};
  auto expect = [&](auto finished, bool add, const std::string &what) {
    EXPECT_EQ(finished.results(add), finished.expected(add)) << what;
  };
  for (const char *bare : {"0", "1", "2"})
    for (const std::vector<int64_t> &bias : {std::vector<int64_t>(), ofColumns, like})
      for (bool isPadded : {false, true}) {
        setenv("HOST_CUBLASLT_BARE", bare, 1);
        MatrixProductFields f;
        f.a = {5, 9}, f.b = {9, 13}, f.output = like, f.bias = bias;
        f.pitchY = isPadded ? 16 : 0;
        const std::string what = std::string(bare) + ", a bias of " + std::to_string(bias.size()) +
                                 " dimensions" + (isPadded ? ", padded" : "");
        for (bool add : {false, true}) {
          if (add && !bias.empty())
            continue; // no kernel does both
          expect(Finished<float, float>(device, run, f), add, what);
          expect(Finished<BFloat16, BFloat16>(device, run, f), add, what);
          expect(Finished<Float16, Float16>(device, run, f), add, what);
          expect(Finished<BFloat16, float>(device, run, f), add, what);
        }
      }
}

} // namespace
} // namespace pdc
