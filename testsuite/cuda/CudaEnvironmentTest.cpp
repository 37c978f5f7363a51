#include "runtime/cuda/CudaEnvironment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace pdc {
namespace {

constexpr const char *kKernels = "CUDA_MODULE_LOADING", *kData = "CUDA_MODULE_DATA_LOADING";

/// The process's own variables are put back.
class CudaEnvironmentTest : public ::testing::Test {
protected:
  CudaEnvironmentTest() {
    for (const char *name :
         {"RANK", "WORLD_SIZE", kKernels, kData, "CUDA_DEVICE_MAX_CONNECTIONS"}) {
      const char *value = std::getenv(name);
      before[name] = value ? std::optional<std::string>(value) : std::nullopt;
    }
  }
  ~CudaEnvironmentTest() override {
    for (const auto &[name, value] : before)
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  }
  /// `variable` is given, and the other of the two is not.
  static void start(const char *ranks, const char *variable, const char *loading) {
    setenv("RANK", "0", 1), setenv("WORLD_SIZE", ranks, 1);
    unsetenv(kKernels), unsetenv(kData);
    if (loading)
      setenv(variable, loading, 1);
  }
  static std::string loading(const char *variable) {
    const char *value = std::getenv(variable);
    return value ? value : "nothing";
  }

private:
  std::map<std::string, std::optional<std::string>> before;
};

TEST_F(CudaEnvironmentTest, LoadsAllKernelsOfOneOfSeveralProcesses) {
  for (const char *given : {static_cast<const char *>(nullptr), "", "EAGER"}) {
    start("2", kKernels, given);
    EXPECT_EQ(runtime::cuda::setCudaEnvironment(), "") << (given ? given : "nothing");
    EXPECT_EQ(loading(kKernels), "EAGER");
    EXPECT_EQ(loading(kData), "EAGER");
  }
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
}

TEST_F(CudaEnvironmentTest, TellsOfAnotherChoice) {
  for (const char *variable : {kKernels, kData})
    for (const std::string given : {"LAZY", "DEFAULT"}) {
      start("2", variable, given.c_str());
      EXPECT_EQ(
          runtime::cuda::setCudaEnvironment(),
          variable + (" is " + given) +
              ", with which ranks may wait for each other for ever: this run sets it to EAGER");
      EXPECT_EQ(loading(kKernels), "EAGER");
      EXPECT_EQ(loading(kData), "EAGER");
    }
}

/// Which waits for no other.
TEST_F(CudaEnvironmentTest, LeavesOneProcessAsItIs) {
  start("1", kKernels, "LAZY");
  EXPECT_EQ(runtime::cuda::setCudaEnvironment(), "");
  EXPECT_EQ(loading(kKernels), "LAZY");
  EXPECT_EQ(loading(kData), "nothing");
}

} // namespace
} // namespace pdc
