#include "testsuite/cuda/CudaCase.h"

#include <gtest/gtest.h>

#include <cstdlib>

/// cuDNN may take a description, make a plan of it, and fail when that runs.
namespace pdc {

static void convolve(UnitCase &unit) {
  unit.node("Conv", {unit.operand({2, 3, 9, 9}), unit.operand({5, 3, 3, 3})},
            {{"dilations", std::vector<int64_t>{1, 1}},
             {"group", int64_t(1)},
             {"kernel_shape", std::vector<int64_t>{3, 3}},
             {"pads", std::vector<int64_t>(4, 1)},
             {"strides", std::vector<int64_t>{1, 1}}});
}

/// The emulation's engines fail when they run: "best", or "all".
class LibraryPlanTest : public ::testing::Test {
protected:
  static void refuse(const char *engines) { setenv("HOST_CUDNN_REFUSES", engines, 1); }
  void TearDown() override { unsetenv("HOST_CUDNN_REFUSES"); }
};

TEST_F(LibraryPlanTest, TakesTheNextWhereOneDoesNotRun) {
  refuse("best");
  ::testing::internal::CaptureStderr();
  expectReference(convolve);
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("a kernel of cuDNN's does not run (an error)"), std::string::npos) << told;
  EXPECT_EQ(told.find("warning"), told.rfind("warning")) << told;
}

TEST_F(LibraryPlanTest, TellsTheFirstErrorWhereNoneRuns) {
  refuse("all");
  try {
    expectReference(convolve);
    FAIL() << "a convolution ran";
  } catch (const std::exception &error) {
    EXPECT_NE(std::string(error.what()).find("cudnnBackendExecute failed: an error"),
              std::string::npos)
        << error.what();
  }
}

} // namespace pdc
