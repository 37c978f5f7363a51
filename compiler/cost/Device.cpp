#include "compiler/cost/Device.h"

#include "compiler/Error.h"

#include <algorithm>

namespace pdc {

static constexpr int64_t kGiB = int64_t(1) << 30;

// Data sheets, dense fp32; the CPU row is measured with oneDNN convolutions and a triad on one
// core.
static constexpr DevicePeaks peaks[] = {
    {"cpu", "one core of a Zen 4 server with AVX-512", 118e9, 20e9, 30e9, 2e-6, 0, 4e9, 2e-6},
    {"titanx", "Titan X (Pascal), PCIe 3", 11e12, 480e9, 480e9, 5e-6, 12 * kGiB, 10e9, 1e-5},
    {"v100", "Tesla V100 SXM2 16 GB, NVLink 2", 15.7e12, 900e9, 900e9, 5e-6, 16 * kGiB, 25e9, 5e-6},
    {"a100", "A100 SXM4 80 GB, NVLink 3", 19.5e12, 2.039e12, 2.039e12, 4e-6, 80 * kGiB, 250e9,
     4e-6},
    {"h100", "H100 SXM5 80 GB, NVLink 4", 67e12, 3.35e12, 3.35e12, 3e-6, 80 * kGiB, 370e9, 3e-6},
    {"h200", "H200 SXM5 141 GB, NVLink 4", 67e12, 4.8e12, 4.8e12, 3e-6, 139 * kGiB, 370e9, 3e-6},
};

std::span<const DevicePeaks> devicePeaks() { return peaks; }

const DevicePeaks &findDevicePeaks(std::string_view name) {
  if (name == "cuda")
    return findDevicePeaks("h100");
  std::string known;
  for (const DevicePeaks &device : peaks) {
    if (device.name == name)
      return device;
    known += (known.empty() ? "" : ", ") + std::string(device.name);
  }
  throw Error("unknown device '" + std::string(name) + "'; devices with known peaks: " + known);
}

double rooflineSeconds(const DevicePeaks &device, double flops, double bytes, int threads) {
  double compute = flops / (device.flopsPerSecond * threads);
  double memory = bytes / std::min(device.bytesPerSecond * threads, device.mostBytesPerSecond);
  return std::max(compute, memory) + device.secondsPerKernel;
}

} // namespace pdc
