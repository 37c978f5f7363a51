#include "compiler/devices/ConvolutionRules.h"

#include <algorithm>

namespace pdc {

namespace {

int64_t roundUp(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

/// The library runs grouped convolutions fast when blocks of channels stay within a group, or when
/// each channel is its own group.
bool runsBlocked(const ConvolutionShape &g, int64_t lanes) {
  int64_t in = g.weight[1], out = g.weight[0] / g.groups;
  return g.groups == 1 || (in % lanes == 0 && out % lanes == 0) || (in == 1 && out == 1);
}

/// Few input channels stay a row-major image: padding them to a block would cost five times the
/// work. (An image of one pixel is row-major in every order, which confuses the library.)
bool hasImage(const ConvolutionShape &g, int64_t lanes) {
  bool isFew = lanes == 16 ? g.input[1] <= 3 : g.input[1] == 3;
  bool isPixel = std::all_of(g.input.begin() + 2, g.input.end(), [](int64_t s) { return s == 1; });
  return g.groups == 1 && isFew && !isPixel && !g.hasKernel(1);
}

/// Whether a window is larger than the image it slides over.
bool reachesOver(const ConvolutionShape &g) {
  for (size_t d = 0; d < g.window.kernel.size(); ++d)
    if (g.input[d + 2] < g.window.kernel[d])
      return true;
  return false;
}

/// Corners that the library's AVX2 kernels leave to its slow general one, which wants row-major
/// tensors: wide strided windows with pads, their gradient for few channels, and gradients of
/// weights of dilated windows or over images smaller than the window.
bool isCorner(const ConvolutionShape &g, ConvolutionUse use, int64_t lanes) {
  if (lanes == 16)
    return false;
  int64_t kernel = *std::max_element(g.window.kernel.begin(), g.window.kernel.end());
  bool hasPads = std::any_of(g.window.padsBegin.begin(), g.window.padsBegin.end(),
                             [](int64_t pad) { return pad != 0; });
  if (use == ConvolutionUse::forward)
    return kernel > 7 && hasPads && g.hasStrides();
  if (use == ConvolutionUse::inputGradient)
    return kernel >= 7 && g.hasStrides() && g.input[1] < 8;
  return reachesOver(g) || !g.isDense();
}

std::string weightTag(const ConvolutionShape &g, int64_t lanes, ConvolutionUse use, bool winograd) {
  int64_t rank = static_cast<int64_t>(g.input.size());
  std::string n = std::to_string(lanes), spatial = tagLetters(2, rank);
  if (g.groups != 1)
    return "";
  if (use == ConvolutionUse::inputGradient && !winograd)
    return (g.hasKernel(1) && lanes == 16 ? "BA" : "AB") + spatial + n + "a" + n + "b";
  if (use != ConvolutionUse::inputGradient && hasImage(g, lanes))
    return "A" + spatial + "b" + n + "a";
  return "AB" + spatial + n + "b" + n + "a";
}

/// Winograd does 2.25 to 4 times fewer multiplications in tiles of 4x4 outputs, moves more memory
/// and rounds more. It pays from 48 channels on when tiles are reasonably full.
///
/// It transforms all weights at each call, which takes as long as some tiles do, whatever the
/// channels: what counts is tiles per call. Time of direct over Winograd, measured (Zen 4, one
/// thread, 64 to 512 channels, images of 4 to 32):
///
///     tiles per call    4          8          16         32         64         128
///     forward           0.3-0.5    0.4-0.7    0.5-0.7    0.9-1.4    1.3-1.7    1.4-2.7
///     input gradient    0.2-0.4    0.4-0.6    0.5-0.7    0.7-1.4    1.4-1.8    1.4-2.8
///     weight gradient   0.4-0.5    0.6-1.2    1.0-1.9    1.5-2.2    1.3-2.6    1.4-2.8
bool usesWinograd(const UnitReader &reader, const ConvolutionShape &g, ConvolutionUse use) {
  if (reader.options.exact || reader.options.vectorWidth != 16 || g.groups != 1 ||
      g.input.size() != 4 || !g.hasKernel(3) || g.hasStrides() || !g.isDense())
    return false;
  if (std::min(g.weight[0], g.weight[1]) < 48)
    return false;
  for (int64_t pad : g.window.padsBegin)
    if (pad > 1)
      return false;
  for (int64_t pad : g.window.padsEnd)
    if (pad > 1)
      return false;
  int64_t pixels = 1, tiles = 1;
  for (size_t d = 2; d < 4; ++d) {
    pixels *= g.output[d];
    tiles *= roundUp(g.output[d], 4) / 4;
  }
  int64_t least = use == ConvolutionUse::weightGradient ? 16 : 32;
  return pixels * 2 >= tiles * 16 && g.input[0] * tiles >= least;
}

int64_t direct(const UnitReader &reader, const ConvolutionShape &g, ConvolutionUse use) {
  int64_t lanes = reader.options.vectorWidth, threads = reader.options.threads;
  int64_t in = roundUp(g.input[1], lanes), out = roundUp(g.output[1], lanes);
  int64_t pixels = 1, taps = 1, image = 1;
  for (size_t d = 2; d < g.output.size(); ++d) {
    pixels *= g.output[d];
    image *= g.input[d];
    taps *= g.weight[d];
  }
  int64_t bytes = 65536 + 8 * (in + out) * threads;
  // A strided 1x1 convolution gathers its image first; with AVX2 its gradient spreads one.
  if (g.hasKernel(1) && g.hasStrides() && lanes == 16)
    bytes += threads * in * (pixels + 64) * 4;
  else if (g.hasKernel(1) && g.hasStrides())
    bytes += threads * (in + 48) * (image + 64) * 4;
  // The general kernel unrolls its windows, for several images at a time.
  if (isCorner(g, use, lanes) || !runsBlocked(g, lanes))
    bytes += threads * 32 * taps * (g.input[1] * (pixels + 64) + g.weight[0] * g.weight[1]);
  // Every thread may sum its own share of the weight gradient, and turn its image.
  if (use == ConvolutionUse::weightGradient)
    bytes += threads * (in * out / std::max<int64_t>(1, g.groups) * taps * 4 + 65536);
  return bytes;
}

/// Transformed weights and tiles; one more set of weights per thread for their gradient.
int64_t winograd(const UnitReader &reader, const ConvolutionShape &g, ConvolutionUse use) {
  int64_t in = roundUp(g.input[1], 16), out = roundUp(g.output[1], 16), points = 36 * 4;
  int64_t tiles = g.input[0];
  for (size_t d = 2; d < 4; ++d)
    tiles *= roundUp(std::max(g.output[d], g.input[d]), 4) / 4;
  int64_t sets = use == ConvolutionUse::weightGradient ? reader.options.threads + 1 : 1;
  return points * (sets * in * out + (tiles + 128) * (in + out)) + (int64_t(16) << 20);
}

/// Kernels of row-major weights pack them into workspace, at most with a block of padding per
/// group.
int64_t packing(const UnitReader &reader, const ConvolutionShape &g) {
  if (g.groups == 1)
    return 0;
  int64_t lanes = reader.options.vectorWidth, bytes = 4 * roundUp(g.groups, lanes);
  bytes *= g.weight[0] == g.groups ? 1 : g.weight[0] / g.groups;
  for (size_t d = 1; d < g.weight.size(); ++d)
    bytes *= g.weight[d];
  return 4 * bytes + 65536;
}

} // namespace

bool ConvolutionShape::isDense() const {
  return std::all_of(window.dilations.begin(), window.dilations.end(),
                     [](int64_t d) { return d == 1; });
}

bool ConvolutionShape::hasKernel(int64_t size) const {
  return std::all_of(window.kernel.begin(), window.kernel.end(),
                     [&](int64_t k) { return k == size; });
}

bool ConvolutionShape::hasStrides() const {
  return std::any_of(window.strides.begin(), window.strides.end(),
                     [](int64_t s) { return s != 1; });
}

ConvolutionForm preferredForm(const UnitReader &reader, const ConvolutionShape &g,
                              ConvolutionUse use) {
  int64_t lanes = reader.options.vectorWidth;
  if (!runsBlocked(g, lanes) || isCorner(g, use, lanes))
    return {};
  bool fast = usesWinograd(reader, g, use);
  std::string blocked = imageLayout(reader, static_cast<int64_t>(g.input.size()));
  bool image = hasImage(g, lanes) && use != ConvolutionUse::inputGradient;
  return {image ? "" : blocked, weightTag(g, lanes, use, fast), blocked, fast};
}

int64_t preferredWorkspace(const UnitReader &reader, const ConvolutionShape &g, ConvolutionUse use,
                           const ConvolutionForm &form) {
  return (form.winograd ? winograd(reader, g, use) : direct(reader, g, use)) + packing(reader, g);
}

} // namespace pdc
