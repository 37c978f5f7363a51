#include "compiler/cost/Device.h"

#include "compiler/Error.h"
#include "compiler/NearestName.h"

#include <algorithm>

namespace pdc {

static constexpr int64_t kGiB = int64_t(1) << 30;

// Data sheets, dense; but of the memory of the A100, H100 and H200 as much as CUDA says that there is
// (79.1, 79.1 and 139.8 GiB). The CPU row is measured with oneDNN convolutions, a triad and libm on
// one core.
static constexpr DevicePeaks peaks[] = {
    {"cpu", "one core of a Xeon at 2.0 GHz with AVX-512", 118e9, 0, 0, 20e9, 30e9, 8e-7, 0, 4e9,
     2e-6, 4.5e-9, 6.75e-9, 24e-9},
    {"titanx", "Titan X (Pascal), PCIe 3", 11e12, 0, 0, 480e9, 480e9, 5e-6, 12 * kGiB, 10e9, 1e-5},
    {"v100", "Tesla V100 SXM2 16 GB, NVLink 2", 15.7e12, 0, 0, 900e9, 900e9, 5e-6, 16 * kGiB, 25e9,
     5e-6},
    {"a100", "A100 SXM4 80 GB, NVLink 3", 19.5e12, 156e12, 312e12, 2.039e12, 2.039e12, 4e-6,
     79 * kGiB, 250e9, 4e-6},
    {"h100", "H100 SXM5 80 GB, NVLink 4", 67e12, 495e12, 989e12, 3.35e12, 3.35e12, 3e-6, 79 * kGiB,
     370e9, 3e-6},
    {"h200", "H200 SXM5 141 GB, NVLink 4", 67e12, 495e12, 989e12, 4.8e12, 4.8e12, 3e-6, 139 * kGiB,
     370e9, 3e-6},
};

/// Shares of a device's peaks.
struct KernelShares {
  std::string_view kernel;
  double flops, bytes;
};

// Measured in training steps of resnet18, lenet5 and gpt2 (tools/models) on the CPU of the table; recurrent
// cells alone, on an EPYC with AVX2; groups, whose flops are a swish's, beside BatchNormalization.
static constexpr KernelShares cpuShares[] = {
    {"Attention", 0.35, 1},
    {"AttentionGradient", 0.3, 1},
    {"BatchNormalization", 1, 0.47},
    {"BatchNormalizationGradient", 1, 0.6},
    {"ConvolutionWeightGradient", 0.7, 1},
    {"DepthwiseWeightGradient", 0.25, 1},
    {"Dropout", 1, 0.22},
    {"GroupNormalization", 0.08, 0.47},
    {"GroupNormalizationGradient", 0.13, 0.75},
    {"GruCell", 1, 0.35},
    {"GruCellGradient", 1, 0.55},
    {"LayerNormalization", 1, 0.45},
    {"LayerNormalizationInputGradient", 1, 0.8},
    {"LstmCell", 1, 0.2},
    {"LstmCellGradient", 1, 0.3},
    {"MatrixProduct", 0.75, 0.25},
    {"Pooling", 1, 0.5},
    {"PoolingGradient", 1, 0.45},
    {"Reorder", 1, 0.46},
    {"Softmax", 1, 0.035},
    {"SoftmaxCrossEntropy", 1, 0.13},
    {"SoftmaxCrossEntropyGradient", 1, 0.33},
    {"SoftmaxGradient", 1, 0.5},
};

static constexpr std::string_view precisions[] = {"fp32", "tf32", "bf16", "fp16"};

std::string_view toString(Precision precision) {
  return precisions[static_cast<size_t>(precision)];
}

std::vector<std::string> precisionNames() { return {std::begin(precisions), std::end(precisions)}; }

Precision precisionNamed(std::string_view name) {
  std::string known;
  for (const std::string_view &precision : precisions) {
    if (precision == name)
      return static_cast<Precision>(&precision - precisions);
    known += (known.empty() ? "" : ", ") + std::string(precision);
  }
  throw Error("expected one of " + known + ", found '" + std::string(name) + "'");
}

std::span<const DevicePeaks> devicePeaks() { return peaks; }

/// Estimated, not measured: a context takes half a GiB, and the runtime takes memory for inputs on
/// their way only where half a GiB stays free.
static constexpr int64_t kKeptBytes = 2 * kGiB;

int64_t bytesForPrograms(const DevicePeaks &device) {
  return std::max<int64_t>(device.memoryBytes - kKeptBytes, 0);
}

const DevicePeaks &findDevicePeaks(std::string_view name) {
  if (name == "cuda")
    return findDevicePeaks("h100");
  std::vector<std::string_view> names;
  for (const DevicePeaks &device : peaks) {
    if (device.name == name)
      return device;
    names.push_back(device.name);
  }
  names.push_back("cuda");
  std::string known;
  for (std::string_view one : names)
    known += (known.empty() ? "" : ", ") + std::string(one);
  throw Error("unknown device '" + std::string(name) + "'; devices with known peaks: " + known +
              nearestName(name, names));
}

/// 0: it has none.
static double peakOf(const DevicePeaks &device, Precision precision) {
  if (precision == Precision::fp32)
    return device.flopsPerSecond;
  return precision == Precision::tf32 ? device.tf32FlopsPerSecond : device.narrowFlopsPerSecond;
}

void requirePrecision(std::string_view device, Precision precision) {
  const DevicePeaks &peaks = findDevicePeaks(device);
  if (peakOf(peaks, precision) > 0)
    return;
  throw Error("precision " + std::string(toString(precision)) + " is not available for device " +
              std::string(device) + "; there is fp32" +
              (peaks.narrowFlopsPerSecond > 0 ? ", tf32, bf16 and fp16" : ""));
}

DevicePeaks besideOthers(const DevicePeaks &device) {
  DevicePeaks share = device;
  share.bytesPerSecond = std::min(device.bytesPerSecond, device.mostBytesPerSecond / 2);
  return share;
}

static double memorySeconds(const DevicePeaks &device, double bytes, int threads) {
  return bytes / std::min(device.bytesPerSecond * threads, device.mostBytesPerSecond);
}

double rooflineSeconds(const DevicePeaks &device, double flops, double bytes, int threads,
                       Precision precision) {
  double compute = flops / (peakOf(device, precision) * threads);
  return std::max(compute, memorySeconds(device, bytes, threads)) + device.secondsPerKernel;
}

static KernelShares sharesOf(const DevicePeaks &device, std::string_view kernel) {
  for (const KernelShares &shares : cpuShares)
    if (device.name == "cpu" && shares.kernel == kernel)
      return shares;
  return {kernel, 1, 1};
}

double kernelSeconds(const DevicePeaks &device, std::string_view kernel, const KernelWork &work,
                     int threads, Precision precision) {
  KernelShares shares = sharesOf(device, kernel);
  const double roofline = rooflineSeconds(device, work.flops / shares.flops,
                                          work.bytes / shares.bytes, threads, precision);
  const double finding = work.runs * device.secondsPerRun / threads + device.secondsPerKernel;
  return std::max(roofline, finding) + memorySeconds(device, work.bytesBefore, threads) +
         (work.calls * device.secondsPerCall + work.rows * device.secondsPerRow) / threads;
}

} // namespace pdc
