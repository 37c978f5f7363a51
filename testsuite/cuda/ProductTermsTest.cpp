#include "testsuite/cuda/ProductTerms.h"

#include "runtime/SmallFloats.h"
#include "testsuite/kernels/KernelMakers.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace pdc {
namespace {

using runtime::BFloat16;
using runtime::Float16;
using Strings = std::vector<std::string>;

/// What ProductCheck tells on a GPU, of kernels of the emulation (HostProducts.cpp), one of which
/// is wrong.
template <class T> class ProductTerms : public ::testing::Test {
protected:
  ProductTerms() { place.run.scratchBase = workspace; }
  ~ProductTerms() override {
    for (const char *name :
         {"HOST_CUBLASLT_KERNELS", "HOST_CUBLASLT_DROPS", "HOST_CUBLASLT_STRAYS"})
      unsetenv(name);
  }
  Strings lost() const { return testing::lostTerms<T>(place, {{3, 41, 5}, {2, 64, 3}}); }
  Strings changed() const { return testing::changedBits<T>(place, {3, 41, 5}, 3); }
  /// That the one kernel which is wrong is told, with what it was asked for.
  static void expectTold(const std::string &told, const std::string &asked,
                         const std::string &end) {
    EXPECT_NE(told.find(asked), std::string::npos) << told;
    EXPECT_NE(told.find(end), std::string::npos) << told;
  }
  static std::string compute() {
    return std::is_same_v<T, BFloat16> ? "bf16" : std::is_same_v<T, Float16> ? "fp16" : "tf32";
  }

  alignas(256) std::byte workspace[1 << 16];
  testing::ProductPlace place{{1, sizeof workspace}, started({})};
};
using Elements = ::testing::Types<float, BFloat16, Float16>;
TYPED_TEST_SUITE(ProductTerms, Elements);

TYPED_TEST(ProductTerms, AreAllThere) {
  for (const char *kernels : {"1", "3"}) {
    setenv("HOST_CUBLASLT_KERNELS", kernels, 1);
    EXPECT_EQ(this->lost(), Strings());
    EXPECT_EQ(this->changed(), Strings());
  }
}

/// Those of the second product fill whole parts.
TYPED_TEST(ProductTerms, TellWhichKernelLosesSome) {
  for (const std::string number : {"0", "2"}) {
    setenv("HOST_CUBLASLT_KERNELS", number == "0" ? "1" : "3", 1);
    setenv("HOST_CUBLASLT_DROPS", number.c_str(), 1);
    const Strings told = this->lost();
    ASSERT_EQ(told.size(), 2u);
    const std::string end =
        ": kernel " + number + ": element 0 is 32, expected 41 (one of 15 that differ)";
    this->expectTold(told[0], "product in " + this->compute() + ": [41x3] transposed by [41x5] to",
                     end);
    this->expectTold(told[1], "product in " + this->compute() + ": [3x41] by [5x41] transposed to",
                     end);
  }
}

TYPED_TEST(ProductTerms, TellWhichKernelChangesItsBits) {
  setenv("HOST_CUBLASLT_KERNELS", "3", 1);
  setenv("HOST_CUBLASLT_STRAYS", "1", 1);
  const Strings told = this->changed();
  ASSERT_EQ(told.size(), 1u);
  this->expectTold(told[0], "[41x3] transposed by [41x5] to [3x5] in fp32",
                   ": kernel 1: element 0 is ");
  this->expectTold(told[0], " when it is made again, expected ", "");
}

} // namespace
} // namespace pdc
