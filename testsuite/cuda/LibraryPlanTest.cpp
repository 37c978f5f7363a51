#include "runtime/cuda/Kernels.h"
#include "testsuite/cuda/OnePixel.h"
#include "testsuite/kernels/KernelMakers.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

/// cuDNN may take a description, make a plan of it, and fail when that runs.
namespace pdc {
namespace {

using runtime::cuda::Convolution;
using runtime::cuda::ConvolutionWeightGradient;
using testing::onePixel;

/// The emulation's engines fail when they run, those that are named (HostNetworks.cpp).
class LibraryPlanTest : public ::testing::Test {
protected:
  LibraryPlanTest() { run.scratchBase = workspace; }
  void TearDown() override { allow(); }

  static void refuse(const char *engines) { setenv("HOST_CUDNN_REFUSES", engines, 1); }
  static void allow() { unsetenv("HOST_CUDNN_REFUSES"); }

  /// call(), which puts 6 to `y`.
  template <class Call> void expectRuns(Call call) {
    y = 0;
    call();
    finish();
    EXPECT_EQ(y, 6);
  }
  template <class Call> void expectError(Call call, const std::string &reason) {
    try {
      call();
      ADD_FAILURE() << "it ran";
    } catch (const std::exception &error) {
      EXPECT_EQ(error.what(), "unit 'asked': cudnnBackendExecute failed: " + reason);
    }
  }
  void expectError(Convolution &kernel, const std::string &reason) {
    expectError([&] { kernel(run, &x, &w, nullptr, &y); }, reason);
  }
  void expectRuns(Convolution &kernel) {
    expectRuns([&] { kernel(run, &x, &w, nullptr, &y); });
  }
  /// call() while its stream is recorded, for nothing.
  template <class Call> static void record(Call call) {
    cudaGraph_t graph = nullptr;
    cudaStreamBeginCapture(testStream(), cudaStreamCaptureModeThreadLocal);
    call();
    cudaStreamEndCapture(testStream(), &graph);
    if (graph)
      cudaGraphDestroy(graph);
  }

  alignas(256) std::byte workspace[1 << 16];
  alignas(16) float x = 2, w = 3, y = 0;
  runtime::Run run = started({});
  runtime::Device device{1, sizeof workspace};
};

TEST_F(LibraryPlanTest, TakesTheNextWhereOneDoesNotRun) {
  Convolution kernel(device, onePixel());
  refuse("best");
  ::testing::internal::CaptureStderr();
  expectRuns(kernel);
  expectRuns(kernel);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: unit 'asked': a kernel of cuDNN's does not run (the execution failed); "
            "another takes its place\n");
}

TEST_F(LibraryPlanTest, TellsTheFirstErrorWhereNoneRuns) {
  Convolution kernel(device, onePixel());
  refuse("all");
  expectError(kernel, "the execution failed");
}

/// Such as that it finds no compiler.
TEST_F(LibraryPlanTest, TellsWhyNoneIsMade) {
  refuse("plans");
  try {
    Convolution kernel(device, onePixel());
    FAIL() << "a kernel was made";
  } catch (const std::exception &error) {
    EXPECT_NE(std::string(error.what())
                  .find("(of 2 kernels, one of which cannot be made: not supported)"),
              std::string::npos)
        << error.what();
  }
}

/// A later failure is no reason to change the bits.
TEST_F(LibraryPlanTest, KeepsWhatHasRun) {
  Convolution kernel(device, onePixel());
  expectRuns(kernel);
  refuse("best");
  expectError(kernel, "the execution failed");
  refuse("others");
  expectRuns(kernel);
}

/// Also before it has run. What then runs kernel by kernel has the choice that it had.
TEST_F(LibraryPlanTest, ChoosesNothingWhileItIsRecorded) {
  for (const char *later : {"others", "best"}) {
    Convolution kernel(device, onePixel());
    refuse("recorded");
    record([&] { expectError(kernel, "the execution failed"); });
    refuse(later);
    ::testing::internal::CaptureStderr();
    expectRuns(kernel);
    const std::string told = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(told.empty(), std::string(later) == "others") << told;
  }
}

TEST_F(LibraryPlanTest, KeepsTheFirstWhereBitsAreExact) {
  device.exact = true;
  Convolution kernel(device, onePixel());
  refuse("best");
  expectError(kernel, "the execution failed");
}

/// A kernel that fails may have added a part already: others are tried where the result is written
/// over.
TEST_F(LibraryPlanTest, KeepsTheFirstWhereItAdds) {
  ConvolutionWeightGradient kernel(device, onePixel());
  refuse("best");
  expectError([&] { kernel(run, &x, &w, &y, true); }, "the execution failed");
  ::testing::internal::CaptureStderr();
  expectRuns([&] { kernel(run, &x, &w, &y, false); });
  EXPECT_NE(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(LibraryPlanTest, TriesWhatAddsBeforeItDoes) {
  ConvolutionWeightGradient kernel(device, onePixel());
  refuse("best");
  expectRuns([&] { kernel(run, &x, &w, &y, false); });
  kernel(run, &x, &w, &y, true);
  finish();
  EXPECT_EQ(y, 12);
}

} // namespace
} // namespace pdc
