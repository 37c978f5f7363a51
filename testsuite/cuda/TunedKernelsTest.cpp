#include "runtime/Tuning.h"

#include "runtime/cuda/ConvolutionPlan.h"
#include "runtime/cuda/CudaAccelerator.h"
#include "runtime/cuda/Kernels.h"
#include "testsuite/cuda/HostStreams.h"
#include "testsuite/cuda/OnePixel.h"
#include "testsuite/cuda/SaidTuning.h"
#include "testsuite/kernels/KernelMakers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

/// Kernels of the libraries that are measured: what they take, and when.
namespace pdc {
namespace {

using runtime::Tuning;
using runtime::cuda::Convolution;
using runtime::cuda::ConvolutionWeightGradient;
using runtime::cuda::MatrixProduct;
using testing::oneNumber;
using testing::onePixel;

/// The libraries' kernels are told apart by which of them fails when it runs. The emulation has two
/// engines of cuDNN's, and three kernels of cuBLASLt's here.
class TunedKernelsTest : public ::testing::Test, protected testing::SaidTuning {
protected:
  TunedKernelsTest() : SaidTuning("tuned", 1) {
    device.tuning = &*tuning;
    run.scratchBase = workspace;
    setenv("HOST_CUBLASLT_KERNELS", "3", 1);
  }
  ~TunedKernelsTest() override {
    for (const char *name :
         {"HOST_CUBLASLT_KERNELS", "HOST_CUBLASLT_REFUSES", "HOST_CUDNN_REFUSES"})
      unsetenv(name);
  }
  static void refuseEngines(const char *kind) { setenv("HOST_CUDNN_REFUSES", kind, 1); }
  static void refuseProduct(const char *number) { setenv("HOST_CUBLASLT_REFUSES", number, 1); }

  /// Another run, which knows what this one has kept.
  void startAgain() {
    ::testing::internal::CaptureStderr();
    tuning->keep();
    ::testing::internal::GetCapturedStderr();
    tuning.emplace("a card", clock, folder.string(), 0);
  }
  /// Of x and w, where y holds `before`.
  template <class Call> void expect(float result, Call call, float before = 0) {
    y = before;
    call();
    finish();
    EXPECT_EQ(y, result);
  }
  void expectRuns(Convolution &kernel) {
    expect(6, [&] { kernel(run, &x, &w, &y); });
  }
  void expectRuns(MatrixProduct &kernel) {
    expect(6, [&] { kernel(run, &x, &w, &y); });
  }
  template <class Call> static void expectError(Call call) { EXPECT_ANY_THROW(call()); }

  alignas(256) std::byte workspace[1 << 16];
  alignas(64) float x = 2, w = 3, y = 0;
  runtime::Run run = started({});
  runtime::Device device{1, sizeof workspace};
};

TEST_F(TunedKernelsTest, TakesTheFastestEngine) {
  seconds = {2, 1};
  Convolution kernel(device, onePixel());
  expectRuns(kernel);
  EXPECT_EQ(timed, 2u);
  refuseEngines("best");
  expectRuns(kernel);
  refuseEngines("others");
  expectError([&] { kernel(run, &x, &w, &y); });
}

/// Where the first microbatch's gradient is written over it.
TEST_F(TunedKernelsTest, MeasuresWhatAdds) {
  seconds = {2, 1, 1, 2};
  ConvolutionWeightGradient kernel(device, onePixel());
  expect(6, [&] { kernel(run, &x, &w, &y, false); });
  EXPECT_EQ(timed, 4u);
  expect(
      10, [&] { kernel(run, &x, &w, &y, true); }, 4);
  refuseEngines("best");
  expect(
      10, [&] { kernel(run, &x, &w, &y, true); }, 4);
  expectError([&] { kernel(run, &x, &w, &y, false); });
}

/// Equal convolutions share their engines, which take long to make; those that add have others.
TEST_F(TunedKernelsTest, MakesTheEnginesOfAProblemOnce) {
  Convolution one(device, onePixel()), other(device, onePixel());
  runtime::ConvolutionFields apart = onePixel();
  apart.strides = {2, 2};
  Convolution third(device, apart);
  auto sharing = [&](const runtime::ConvolutionFields &fields) {
    using runtime::cuda::ConvolutionPlan, runtime::cuda::ConvolutionUse;
    return tuning->shared(ConvolutionPlan::problemOf(fields, ConvolutionUse::forward)).use_count();
  };
  EXPECT_EQ(sharing(onePixel()), 3);
  EXPECT_EQ(sharing(apart), 2);
  expectRuns(one);
  expectRuns(other);
  EXPECT_EQ(timed, 2u);
}

TEST_F(TunedKernelsTest, TakesTheFastestProduct) {
  seconds = {3, 2, 1};
  MatrixProduct kernel(device, oneNumber());
  expectRuns(kernel);
  EXPECT_EQ(timed, 3u);
  refuseProduct("0");
  expectRuns(kernel);
  refuseProduct("2");
  expectError([&] { kernel(run, &x, &w, &y); });
}

TEST_F(TunedKernelsTest, StaysWithTheLibrarysFirst) {
  Convolution convolution(device, onePixel());
  MatrixProduct kernel(device, oneNumber());
  expectRuns(convolution);
  expectRuns(kernel);
  EXPECT_EQ(timed, 5u);
  refuseEngines("others");
  expectRuns(convolution);
  refuseProduct("1");
  expectRuns(kernel);
  refuseProduct("0");
  expectError([&] { kernel(run, &x, &w, &y); });
}

TEST_F(TunedKernelsTest, LeavesOutWhatDoesNotRun) {
  refuseEngines("best");
  Convolution convolution(device, onePixel());
  expectRuns(convolution);
  seconds = {9, 2, 1};
  refuseProduct("1");
  MatrixProduct kernel(device, oneNumber());
  expectRuns(kernel);
  EXPECT_EQ(timed, 3u);
  refuseProduct("2");
  expectError([&] { kernel(run, &x, &w, &y); });
}

/// As without measuring.
TEST_F(TunedKernelsTest, TellsWhyNoneRuns) {
  Convolution convolution(device, onePixel());
  refuseEngines("all");
  try {
    convolution(run, &x, &w, &y);
    FAIL() << "it ran";
  } catch (const std::exception &error) {
    EXPECT_EQ(error.what(),
              std::string("unit 'asked': cudnnBackendExecute failed: the execution failed"));
  }
  setenv("HOST_CUBLASLT_KERNELS", "1", 1);
  MatrixProduct kernel(device, oneNumber());
  refuseProduct("0");
  try {
    kernel(run, &x, &w, &y);
    FAIL() << "it ran";
  } catch (const std::exception &error) {
    EXPECT_EQ(error.what(), std::string("unit 'asked': cublasLtMatmul failed: an error"));
  }
}

/// Kernels of equal problems, and those of another run.
TEST_F(TunedKernelsTest, MeasuresAProblemOnce) {
  seconds = {2, 1, 3, 2, 1};
  auto expectChoices = [&] {
    refuseEngines("best");
    Convolution convolution(device, onePixel());
    expectRuns(convolution);
    refuseProduct("0");
    MatrixProduct kernel(device, oneNumber());
    expectRuns(kernel);
    refuseEngines("");
    refuseProduct("-1");
  };
  Convolution convolution(device, onePixel());
  expectRuns(convolution);
  MatrixProduct kernel(device, oneNumber());
  expectRuns(kernel);
  expectChoices();
  EXPECT_EQ(timed, 5u);
  ::testing::internal::CaptureStderr();
  tuning->keep();
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("measured 5 kernels"), std::string::npos);
  tuning.emplace("a card", clock, folder.string(), 7);
  expectChoices();
  EXPECT_EQ(timed, 5u);
  startAgain();
  setenv("HOST_CUDNN_VERSION", "99999", 1);
  Convolution newer(device, onePixel());
  unsetenv("HOST_CUDNN_VERSION");
  expectRuns(newer);
  EXPECT_EQ(timed, 7u);
}

/// A sum would grow with each run, and so might what is read and written at one place.
TEST_F(TunedKernelsTest, MeasuresNothingThatItMayRunOnce) {
  ConvolutionWeightGradient gradient(device, onePixel());
  expect(
      10, [&] { gradient(run, &x, &w, &y, true); }, 4);
  MatrixProduct kernel(device, oneNumber());
  expect(
      10, [&] { kernel(run, &x, &w, &y, true); }, 4);
  expect(
      12, [&] { kernel(run, &y, &w, &y); }, 4);
  EXPECT_EQ(timed, 0u);
  // A sum takes what was measured without.
  seconds = {3, 2, 1};
  expectRuns(kernel);
  EXPECT_EQ(timed, 3u);
  refuseProduct("2");
  expectError([&] { kernel(run, &x, &w, &y, true); });
  refuseProduct("0");
  expect(
      10, [&] { kernel(run, &x, &w, &y, true); }, 4);
}

/// A matrix that is added stays what it is, and makes another problem of the product.
TEST_F(TunedKernelsTest, MeasuresProductsThatAddAMatrix) {
  runtime::MatrixProductFields f = oneNumber();
  f.a = f.output = f.bias = {2, 1};
  alignas(64) float rows[2] = {2, 4}, added[2] = {10, 20}, results[2];
  auto expectSums = [&](MatrixProduct &kernel) {
    kernel(run, rows, &w, added, results);
    finish();
    EXPECT_EQ(results[0], 16);
    EXPECT_EQ(results[1], 32);
  };
  runtime::MatrixProductFields plain = f;
  plain.bias = {};
  MatrixProduct other(device, plain), kernel(device, f);
  other(run, rows, &w, results);
  finish();
  EXPECT_EQ(timed, 3u);
  // In place nothing may run twice.
  results[0] = 10, results[1] = 20;
  kernel(run, rows, &w, results, results);
  finish();
  EXPECT_EQ(results[0], 16);
  EXPECT_EQ(timed, 3u);
  timed = 0, seconds = {3, 2, 1};
  expectSums(kernel);
  EXPECT_EQ(timed, 3u);
  refuseProduct("0");
  expectSums(kernel);
  EXPECT_EQ(added[0], 10);
  expectError([&] { kernel(run, rows, &w, results, true); });
}

/// Making a plan loads kernels, which may wait for messages once there are any.
TEST_F(TunedKernelsTest, MakesAllPlansBefore) {
  seconds = {2, 1};
  Convolution convolution(device, onePixel());
  refuseEngines("plans");
  expectRuns(convolution);
  EXPECT_EQ(timed, 2u);
  refuseEngines("best");
  expectRuns(convolution);
}

TEST_F(TunedKernelsTest, LeavesOutWhatCannotBeMade) {
  refuseEngines("plan of the best");
  seconds = {2};
  Convolution convolution(device, onePixel());
  expectRuns(convolution);
  EXPECT_EQ(timed, 1u);
  // Nor one that was chosen when it could be.
  runtime::ConvolutionFields other = onePixel();
  other.padsEnd = {1, 1}, other.output = {1, 1, 2, 2};
  refuseEngines("");
  float four[4];
  {
    Convolution first(device, other);
    first(run, &x, &w, four);
    finish();
  }
  EXPECT_EQ(timed, 3u);
  startAgain();
  refuseEngines("plan of the best");
  Convolution again(device, other);
  again(run, &x, &w, four);
  finish();
  EXPECT_EQ(four[0], 6);
  EXPECT_EQ(timed, 4u);
}

/// In parts, of which the first is measured; twice, since what equals another shares its plan.
TEST_F(TunedKernelsTest, MeasuresAttention) {
  runtime::AttentionFields f;
  f.batch = 4, f.batchTogether = 2, f.heads = 2, f.keyHeads = 2, f.queries = f.keys = 8;
  f.width = f.valueWidth = 8, f.rowsFirst = {1, 1, 1, 1}, f.results = {0};
  f.compute = "bf16", f.name = "asked", f.scale = 0.5;
  std::vector<runtime::BFloat16> q(4 * 8 * 16), expected(q.size()), found(q.size());
  for (size_t i = 0; i < q.size(); ++i)
    q[i] = runtime::BFloat16(float(i * 37 % 101) / 50 - 1);
  std::vector<std::byte> room((size_t(1) << 20) + 256);
  run.scratchBase = room.data();
  auto attend = [&](Tuning *by, std::vector<runtime::BFloat16> &y) {
    const runtime::cuda::Attention attention(runtime::Device{1, int64_t(1) << 20, false, by}, f);
    attention(run, q.data(), q.data(), q.data(), nullptr, nullptr, y.data());
    finish();
  };
  attend(nullptr, expected);
  EXPECT_EQ(timed, 0u);
  seconds = {2, 1};
  attend(&*tuning, found);
  attend(&*tuning, found);
  EXPECT_EQ(timed, 2u);
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), 2 * q.size()), 0);
  refuseEngines("best");
  attend(&*tuning, found);
}

TEST_F(TunedKernelsTest, MeasuresNothingWhileItIsRecorded) {
  Convolution convolution(device, onePixel());
  MatrixProduct kernel(device, oneNumber());
  cudaGraph_t graph = nullptr;
  cudaStreamBeginCapture(testStream(), cudaStreamCaptureModeThreadLocal);
  convolution(run, &x, &w, &y);
  kernel(run, &x, &w, &y);
  ASSERT_EQ(cudaStreamEndCapture(testStream(), &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  EXPECT_EQ(timed, 0u);
  expectRuns(convolution);
  expectRuns(kernel);
  EXPECT_EQ(timed, 5u);
}

/// What stood in the queue before is no part of it, nor is the time in which the host did nothing.
TEST_F(TunedKernelsTest, TimesWhatTheDeviceDoes) {
  using std::chrono::milliseconds;
  std::unique_ptr<runtime::Accelerator> gpu = runtime::cuda::support.open(0);
  EXPECT_EQ(gpu->name(), "this host");
  const auto stream = static_cast<cudaStream_t>(gpu->queue());
  int runs = 0;
  testing::enqueue(stream, [] { std::this_thread::sleep_for(milliseconds(200)); });
  const double seconds = gpu->secondsOf([&] {
    testing::enqueue(stream,
                     [&] { std::this_thread::sleep_for(milliseconds(++runs == 2 ? 5 : 50)); });
    std::this_thread::sleep_for(milliseconds(10));
  });
  EXPECT_EQ(runs, 3);
  EXPECT_GE(seconds, 0.005);
  EXPECT_LT(seconds, 0.045);
}

} // namespace
} // namespace pdc
