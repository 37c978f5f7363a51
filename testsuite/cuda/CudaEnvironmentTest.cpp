#include "runtime/cuda/CudaEnvironment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace pdc {
namespace {

/// The process's own variables are put back.
class CudaEnvironmentTest : public ::testing::Test {
protected:
  CudaEnvironmentTest() {
    for (const char *name :
         {"RANK", "WORLD_SIZE", "CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS"}) {
      const char *value = std::getenv(name);
      before[name] = value ? std::optional<std::string>(value) : std::nullopt;
    }
  }
  ~CudaEnvironmentTest() override {
    for (const auto &[name, value] : before)
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  }
  static void start(const char *ranks, const char *loading) {
    setenv("RANK", "0", 1), setenv("WORLD_SIZE", ranks, 1);
    loading ? setenv("CUDA_MODULE_LOADING", loading, 1) : unsetenv("CUDA_MODULE_LOADING");
  }
  static std::string loading() {
    const char *value = std::getenv("CUDA_MODULE_LOADING");
    return value ? value : "nothing";
  }

private:
  std::map<std::string, std::optional<std::string>> before;
};

TEST_F(CudaEnvironmentTest, LoadsAllKernelsOfOneOfSeveralProcesses) {
  for (const char *given : {static_cast<const char *>(nullptr), "", "EAGER"}) {
    start("2", given);
    EXPECT_EQ(runtime::cuda::setCudaEnvironment(), "") << (given ? given : "nothing");
    EXPECT_EQ(loading(), "EAGER");
  }
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
}

TEST_F(CudaEnvironmentTest, TellsOfAnotherChoice) {
  for (const std::string given : {"LAZY", "DEFAULT"}) {
    start("2", given.c_str());
    EXPECT_EQ(runtime::cuda::setCudaEnvironment(),
              "CUDA_MODULE_LOADING is " + given +
                  ", with which ranks may wait for each other for ever: this run sets it to EAGER");
    EXPECT_EQ(loading(), "EAGER");
  }
}

/// Which waits for no other.
TEST_F(CudaEnvironmentTest, LeavesOneProcessAsItIs) {
  start("1", "LAZY");
  EXPECT_EQ(runtime::cuda::setCudaEnvironment(), "");
  EXPECT_EQ(loading(), "LAZY");
}

} // namespace
} // namespace pdc
