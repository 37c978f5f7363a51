#include "compiler/Error.h"
#include "compiler/cost/Device.h"

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

TEST(Cost, KnownDevices) {
  for (const char *name : {"cpu", "v100", "titanx", "a100", "h100", "h200"})
    EXPECT_EQ(findDevicePeaks(name).name, name);
  EXPECT_THROW(findDevicePeaks("tpu"), Error);
}

} // namespace
} // namespace pdc
