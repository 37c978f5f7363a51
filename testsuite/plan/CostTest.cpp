#include "compiler/Error.h"
#include "compiler/cost/Device.h"

#include "testsuite/Refusal.h"

#include <gtest/gtest.h>

namespace pdc {
namespace {

TEST(Cost, RooflineTakesTheSlowerSide) {
  const DevicePeaks &cpu = findDevicePeaks("cpu");
  EXPECT_DOUBLE_EQ(rooflineSeconds(cpu, 118e9, 1), 1 + cpu.secondsPerKernel);
  EXPECT_DOUBLE_EQ(rooflineSeconds(cpu, 1, 20e9), 1 + cpu.secondsPerKernel);
  EXPECT_DOUBLE_EQ(rooflineSeconds(cpu, 236e9, 1, 2), 1 + cpu.secondsPerKernel);
  // Two threads together do not read twice as fast.
  EXPECT_DOUBLE_EQ(rooflineSeconds(cpu, 1, 30e9, 2), 1 + cpu.secondsPerKernel);
}

TEST(Cost, KernelsStayBelowThePeaks) {
  const DevicePeaks &cpu = findDevicePeaks("cpu"), &h100 = findDevicePeaks("h100");
  KernelWork work{118e9, 20e9, 40e9, 1e6, 1e6};
  double calls = 1e6 * cpu.secondsPerCall + 1e6 * cpu.secondsPerRow;
  // Nothing is known of some; a reorder moves less than half of the bytes that a triad does.
  EXPECT_DOUBLE_EQ(kernelSeconds(cpu, "Convolution", work), 1 + 2 + cpu.secondsPerKernel + calls);
  EXPECT_DOUBLE_EQ(kernelSeconds(cpu, "Reorder", work),
                   1 / 0.46 + 2 + cpu.secondsPerKernel + calls);
  EXPECT_DOUBLE_EQ(kernelSeconds(h100, "Reorder", {0, 3.35e12}), 1 + h100.secondsPerKernel);
}

/// A copy of few long runs goes as fast as memory does, one of many short ones as fast as it finds
/// them; both at a time.
TEST(Cost, CopiesMoveRuns) {
  const DevicePeaks &cpu = findDevicePeaks("cpu");
  auto seconds = [&](double runs) {
    return kernelSeconds(cpu, "StridedCopy", {.bytes = 20e9, .runs = runs}) - cpu.secondsPerKernel;
  };
  EXPECT_DOUBLE_EQ(seconds(1e6), 1);
  EXPECT_DOUBLE_EQ(seconds(1e9), 1e9 * cpu.secondsPerRun);
}

TEST(Cost, KnownDevices) {
  for (const char *name : {"cpu", "v100", "titanx", "a100", "h100", "h200"})
    EXPECT_EQ(findDevicePeaks(name).name, name);
  EXPECT_THROW(findDevicePeaks("tpu"), Error);
}

TEST(Cost, SomeOfAGpusMemoryIsCudas) {
  EXPECT_EQ(bytesForPrograms(findDevicePeaks("h100")), int64_t(77) << 30);
  EXPECT_EQ(bytesForPrograms(findDevicePeaks("cpu")), 0); // not known
}

TEST(Cost, ProductsInTf32HaveAPeakOfTheirOwn) {
  const DevicePeaks &h100 = findDevicePeaks("h100");
  EXPECT_DOUBLE_EQ(rooflineSeconds(h100, 495e12, 1, 1, Precision::tf32), 1 + h100.secondsPerKernel);
  EXPECT_DOUBLE_EQ(rooflineSeconds(h100, 67e12, 1, 1, Precision::fp32), 1 + h100.secondsPerKernel);
}

TEST(Cost, DevicesRefuseWhatTheyDoNotComputeIn) {
  for (const char *device : {"cpu", "v100", "cuda", "h200"})
    requirePrecision(device, Precision::fp32);
  requirePrecision("cuda", Precision::tf32);
  EXPECT_EQ(refusal([] { requirePrecision("cpu", Precision::tf32); }),
            "precision tf32 is not available for device cpu; there is fp32");
  EXPECT_EQ(refusal([] { requirePrecision("v100", Precision::tf32); }),
            "precision tf32 is not available for device v100; there is fp32");
  EXPECT_EQ(refusal([] { requirePrecision("v100", Precision::fp16); }),
            "precision fp16 is not available for device v100; there is fp32");
}

/// Two cores of the table's machine move 30 GB/s, one alone 20: beside the other it has 15.
TEST(Cost, CoresShareMemory) {
  const DevicePeaks &alone = findDevicePeaks("cpu");
  const DevicePeaks beside = besideOthers(alone);
  const double moves = 1e9, start = alone.secondsPerKernel;
  EXPECT_DOUBLE_EQ(rooflineSeconds(beside, 0, moves) - start, moves / 15e9);
  EXPECT_DOUBLE_EQ((rooflineSeconds(beside, 0, moves) - start) /
                       (rooflineSeconds(alone, 0, moves) - start),
                   4.0 / 3);
  EXPECT_DOUBLE_EQ(rooflineSeconds(beside, 1e12, moves), rooflineSeconds(alone, 1e12, moves));
}

} // namespace
} // namespace pdc
