#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pdc {

/// What --precision says. Products (convolutions, matrix products) are computed in the named type,
/// their sums and everything else in f32; weights are kept in f32. fp32 and tf32 also store what
/// passes between kernels in f32, bf16 and fp16 in 16 bits.
enum class Precision : uint8_t { fp32, tf32, bf16, fp16 };

std::string_view toString(Precision precision);
std::vector<std::string> precisionNames();
/// Throws Error with the known names.
Precision precisionNamed(std::string_view name);

/// What a device can do at most, for estimates where nothing is measured. One row per device.
struct DevicePeaks {
  std::string_view name;
  std::string_view text;
  double flopsPerSecond;     ///< fp32; per thread on a CPU
  double tf32FlopsPerSecond; ///< products in tf32; 0: it has none
  double narrowFlopsPerSecond; ///< products in bf16 or fp16; 0: it has none
  double bytesPerSecond;     ///< memory; per thread on a CPU
  double mostBytesPerSecond; ///< memory, all threads together
  double secondsPerKernel;   ///< to start a kernel
  int64_t memoryBytes;       ///< 0: not known
  double linkBytesPerSecond; ///< to a neighbour, one direction
  double linkSeconds;        ///< latency
  double secondsPerCall = 0; ///< of an exponential; per thread on a CPU
  double secondsPerRow = 0;  ///< of those picked one by one; per thread on a CPU
  double secondsPerRun = 0;  ///< that a copy finds; per thread on a CPU
};

/// What is left of a device's memory for programs; 0: not known. Of a GPU's, CUDA and its libraries
/// take some for themselves, all kernels loaded at the start among it, and what is recorded
/// comes later.
int64_t bytesForPrograms(const DevicePeaks &device);

/// What a kernel computes and moves.
struct KernelWork {
  double flops = 0, bytes = 0;
  double bytesBefore = 0; ///< moved before it computes, or behind that
  double calls = 0;       ///< of mathematical functions, in exponentials
  double rows = 0;        ///< that are picked one by one
  double runs = 0;        ///< of neighbours, whose places are found while others move
};

std::span<const DevicePeaks> devicePeaks();

/// `cuda` is an H100; throws pdc::Error with the known names.
const DevicePeaks &findDevicePeaks(std::string_view name);

/// Throws Error where pdc makes no programs of that precision for the device, with those it makes.
void requirePrecision(std::string_view device, Precision precision);

/// What each core can do while all others of its machine compute: they share its memory. The table
/// knows what two of them reach together; machines of more cores are taken to have as much for
/// each.
DevicePeaks besideOthers(const DevicePeaks &device);

/// The roofline: whichever is slower of computing and moving bytes, and the start of the kernel.
double rooflineSeconds(const DevicePeaks &device, double flops, double bytes, int threads = 1,
                       Precision precision = Precision::fp32);

/// The same of a kernel by its name, below the peaks where it is known what it reaches of them.
double kernelSeconds(const DevicePeaks &device, std::string_view kernel, const KernelWork &work,
                     int threads = 1, Precision precision = Precision::fp32);

} // namespace pdc
