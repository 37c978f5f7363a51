#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace pdc {

/// What a device can do at most, for estimates where nothing is measured. One row per device.
struct DevicePeaks {
  std::string_view name;
  std::string_view text;
  double flopsPerSecond;     ///< fp32; per thread on a CPU
  double bytesPerSecond;     ///< memory; per thread on a CPU
  double mostBytesPerSecond; ///< memory, all threads together
  double secondsPerKernel;   ///< to start a kernel
  int64_t memoryBytes;       ///< 0: not known
  double linkBytesPerSecond; ///< to a neighbour, one direction
  double linkSeconds;        ///< latency
};

std::span<const DevicePeaks> devicePeaks();

/// `cuda` is an H100; throws pdc::Error with the known names.
const DevicePeaks &findDevicePeaks(std::string_view name);

/// The roofline: whichever is slower of computing and moving bytes, and the start of the kernel.
double rooflineSeconds(const DevicePeaks &device, double flops, double bytes, int threads = 1);

} // namespace pdc
