#include "compiler/devices/UnitReader.h"
#include "compiler/operators/Window.h"

#include <algorithm>

namespace pdc {

namespace {

/// The windows of a pooling node over an input of this shape; global pooling has one.
Window windowOf(const UnitReader &reader, const UnitNode &node, const std::vector<int64_t> &input) {
  if (input.size() < 3 || input.size() > 5)
    reader.refuse("pooling runs over 1, 2 or 3 spatial dimensions");
  bool isGlobal = node.op.starts_with("Global");
  std::vector<int64_t> kernel;
  if (isGlobal)
    kernel.assign(input.begin() + 2, input.end());
  Window window = resolveWindow(reader.view(node), input, kernel);
  if (std::any_of(window.dilations.begin(), window.dilations.end(),
                  [](int64_t d) { return d != 1; }))
    reader.refuse("pooling with dilations has no kernel; supported is dilation 1");
  return window;
}

std::string modeOf(const UnitReader &reader, const UnitNode &node, const Window &window,
                   const std::vector<int64_t> &input) {
  if (node.op.starts_with("Max"))
    return "max";
  bool hasPads = false, isExact = true;
  for (size_t d = 0; d < window.kernel.size(); ++d) {
    hasPads = hasPads || window.padsBegin[d] || window.padsEnd[d];
    int64_t reach = (window.output[d] - 1) * window.strides[d] + window.kernel[d];
    isExact = isExact && reach <= input[d + 2] + window.padsBegin[d] + window.padsEnd[d];
  }
  // Nothing beyond the padding counts, and where there is none, nothing outside does.
  if (!node.attributes->integer("count_include_pad", 0) || !hasPads)
    return "average";
  if (!isExact)
    reader.refuse("average pooling that counts pads has no kernel where ceil_mode reaches beyond "
                  "them; infer-shapes composes it of others");
  return "average_with_pads";
}

/// The library remembers positions within a window, in a byte below 256 taps.
std::string positionsLayout(const Window &window, const std::string &layout) {
  int64_t taps = 1;
  for (int64_t k : window.kernel)
    taps *= k;
  return (taps < 256 ? "u8:" : "i32:") + layout;
}

KernelChoice choiceFor(const UnitReader &reader, const UnitNode &node, std::string kernel,
                       const std::vector<int64_t> &input, const std::vector<int64_t> &output,
                       const Window &window, const std::string &layout) {
  KernelChoice choice;
  choice.kernel = std::move(kernel);
  choice.fields = {{"input", input},
                   {"kernel", window.kernel},
                   {"layout", layout},
                   {"mode", modeOf(reader, node, window, input)},
                   {"name", std::string(reader.unit.name)},
                   {"output", output},
                   {"padsBegin", window.padsBegin},
                   {"strides", window.strides}};
  choice.workspaceBytes = 65536;
  return choice;
}

} // namespace

KernelChoice choosePooling(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const std::vector<int64_t> &input = reader.inputType(node, 0).shape;
  Window window = windowOf(reader, node, input);
  std::string layout = imageLayout(reader, static_cast<int64_t>(input.size()));
  KernelChoice choice =
      choiceFor(reader, node, "Pooling", input, node.outputs[0].shape, window, layout);
  addArgument(choice, reader, node, 0, layout);
  choice.outputLayouts = {layout};
  if (reader.unit.results.size() > 1) {
    choice.fields.set("positions", int64_t(1));
    choice.outputLayouts.push_back(positionsLayout(window, layout));
  }
  return choice;
}

KernelChoice choosePoolingGradient(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const std::vector<int64_t> &input = node.outputs[0].shape;
  Window window = windowOf(reader, node, input);
  std::string layout = imageLayout(reader, static_cast<int64_t>(input.size()));
  KernelChoice choice = choiceFor(reader, node, "PoolingGradient", input,
                                  reader.inputType(node, 0).shape, window, layout);
  addArgument(choice, reader, node, 0, layout);
  if (node.op == "MaxPoolGrad") {
    choice.fields.set("positions", int64_t(1));
    addArgument(choice, reader, node, 1, positionsLayout(window, layout));
  }
  choice.outputLayouts = {layout};
  return choice;
}

} // namespace pdc
