#include "compiler/operators/Window.h"
#include "compiler/operators/Rules.h"

namespace pdc {

/// Sizes beyond this are mistakes or attacks, and would overflow the arithmetic below.
static constexpr int64_t kMostSize = int64_t(1) << 31;

static std::vector<int64_t> list(const NodeView &node, const char *name, size_t size,
                                 int64_t otherwise, int64_t least) {
  std::vector<int64_t> values = node.attributes.integers(name);
  if (values.empty())
    values.assign(size, otherwise);
  if (values.size() != size)
    refuse(node, "attribute '" + std::string(name) + "' has " + std::to_string(values.size()) +
                     " values, expected " + std::to_string(size));
  for (int64_t value : values)
    if (value < least || value > kMostSize)
      refuse(node, "attribute '" + std::string(name) + "' has the value " + std::to_string(value) +
                       " out of range");
  return values;
}

/// SAME_UPPER and SAME_LOWER: output = ceil(input / stride), the odd pad at the end or the start.
static void resolveSame(Window &window, size_t d, int64_t input, int64_t extent, bool upper) {
  int64_t output = (input + window.strides[d] - 1) / window.strides[d];
  int64_t total = std::max<int64_t>(0, (output - 1) * window.strides[d] + extent - input);
  window.padsBegin[d] = upper ? total / 2 : total - total / 2;
  window.padsEnd[d] = total - window.padsBegin[d];
}

static int64_t outputSize(const NodeView &node, const Window &window, size_t d, int64_t input,
                          int64_t extent, bool ceiling) {
  int64_t room = input + window.padsBegin[d] + window.padsEnd[d] - extent;
  if (room < 0)
    refuse(node, "the window of " + std::to_string(extent) +
                     " is larger than the padded input of " + std::to_string(room + extent) +
                     " in spatial dimension " + std::to_string(d));
  int64_t size = room / window.strides[d] + 1;
  // A last partial window counts only when it starts inside the input or its leading pad.
  if (ceiling && room % window.strides[d] && size * window.strides[d] < input + window.padsBegin[d])
    ++size;
  return size;
}

static Window readWindow(const NodeView &node, size_t rank, std::vector<int64_t> kernel) {
  Window window;
  window.kernel = list(node, "kernel_shape", rank, 0, kernel.empty() ? 1 : 0);
  if (!kernel.empty()) {
    if (node.attributes.has("kernel_shape") && window.kernel != kernel)
      refuse(node, "attribute 'kernel_shape' is " + shapeText(window.kernel) +
                       " but the weight's is " + shapeText(kernel));
    window.kernel = std::move(kernel);
  }
  window.strides = list(node, "strides", rank, 1, 1);
  window.dilations = list(node, "dilations", rank, 1, 1);
  std::vector<int64_t> pads = list(node, "pads", 2 * rank, 0, 0);
  window.padsBegin.assign(pads.begin(), pads.begin() + rank);
  window.padsEnd.assign(pads.begin() + rank, pads.end());
  return window;
}

Window resolveWindow(const NodeView &node, const std::vector<int64_t> &inputShape,
                     std::vector<int64_t> kernel) {
  if (inputShape.size() < 3)
    refuse(node, "input of rank " + std::to_string(inputShape.size()) +
                     ", expected batch, channels and spatial dimensions");
  size_t rank = inputShape.size() - 2;
  if (kernel.empty() && node.attributes.integers("kernel_shape").size() != rank)
    refuse(node, "attribute 'kernel_shape' must have " + std::to_string(rank) + " values");
  Window window = readWindow(node, rank, std::move(kernel));
  std::string mode = node.attributes.string("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER")
    refuse(node, "attribute 'auto_pad' is '" + mode + "'");
  bool ceiling = node.attributes.integer("ceil_mode", 0) != 0;
  for (size_t d = 0; d < rank; ++d) {
    int64_t input = inputShape[d + 2];
    if (input < 1 || input > kMostSize || window.kernel[d] < 1)
      refuse(node, "a window over an empty dimension: input " + shapeText(inputShape) +
                       ", kernel " + shapeText(window.kernel));
    int64_t extent = (window.kernel[d] - 1) * window.dilations[d] + 1;
    if (mode == "VALID")
      window.padsBegin[d] = window.padsEnd[d] = 0;
    else if (mode != "NOTSET")
      resolveSame(window, d, input, extent, mode == "SAME_UPPER");
    window.output.push_back(outputSize(node, window, d, input, extent, ceiling));
  }
  return window;
}

Attributes windowAttributes(const Window &window, const std::vector<int64_t> &inputShape) {
  std::vector<int64_t> pads = window.padsBegin;
  pads.insert(pads.end(), window.padsEnd.begin(), window.padsEnd.end());
  return {{"kernel_shape", window.kernel},
          {"strides", window.strides},
          {"dilations", window.dilations},
          {"pads", pads},
          {"input_shape", inputShape}};
}

bool sourceOffset(const Window &window, const std::vector<int64_t> &position,
                  const std::vector<int64_t> &tap, const std::vector<int64_t> &inputShape,
                  int64_t &offset) {
  offset = 0;
  for (size_t d = 0; d < position.size(); ++d) {
    int64_t source = window.source(d, position[d], tap[d]);
    if (source < 0 || source >= inputShape[d + 2])
      return false;
    offset = offset * inputShape[d + 2] + source;
  }
  return true;
}

int64_t columnMajorOffset(int64_t offset, const std::vector<int64_t> &inputShape) {
  const int64_t channel = product(inputShape, 2);
  int64_t rest = offset % channel, moved = 0;
  for (size_t d = inputShape.size(); d-- > 2; rest /= inputShape[d])
    moved += rest % inputShape[d] * product(inputShape, 2, d);
  return offset - offset % channel + moved;
}

} // namespace pdc
