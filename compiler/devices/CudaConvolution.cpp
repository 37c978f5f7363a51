#include "compiler/devices/UnitReader.h"
#include "compiler/operators/Window.h"

namespace pdc {

namespace {

/// Everything channels-last, the weight too (cuDNN's KRSC).
KernelChoice choiceFor(const UnitReader &reader, std::string kernel,
                       const std::vector<int64_t> &input, const std::vector<int64_t> &weight,
                       const std::vector<int64_t> &output) {
  if (input.size() < 3 || input.size() > 5)
    reader.refuse("convolutions run over 1, 2 or 3 spatial dimensions");
  const UnitNode &node = reader.node(0);
  std::vector<int64_t> taps(weight.begin() + 2, weight.end());
  Window window = resolveWindow(reader.view(node), input, taps);
  KernelChoice choice;
  choice.kernel = std::move(kernel);
  choice.fields = {{"dilations", window.dilations},
                   {"groups", node.attributes->integer("group", 1)},
                   {"input", input},
                   {"name", std::string(reader.unit.name)},
                   {"output", output},
                   {"padsBegin", window.padsBegin},
                   {"padsEnd", window.padsEnd},
                   {"strides", window.strides},
                   {"weight", weight}};
  setCompute(choice, reader);
  return choice;
}

std::string layoutFor(const UnitReader &reader, const std::vector<int64_t> &image) {
  return imageLayout(reader, static_cast<int64_t>(image.size()));
}

KernelChoice chooseGradient(const UnitReader &reader, bool ofInput) {
  const UnitNode &node = reader.node(0);
  const std::vector<int64_t> &written = node.outputs[0].shape;
  const std::vector<int64_t> &read = reader.inputType(node, 1).shape;
  KernelChoice choice = choiceFor(
      reader, ofInput ? "ConvolutionInputGradient" : "ConvolutionWeightGradient",
      ofInput ? written : read, ofInput ? read : written, reader.inputType(node, 0).shape);
  const std::string layout = layoutFor(reader, written);
  addArgument(choice, reader, node, 0, layout);
  addArgument(choice, reader, node, 1, layout);
  choice.outputLayouts = {layout};
  // The library makes gradients of 16 bits in 16 bits, which are no sums to add to.
  choice.accumulates = !ofInput && bytesPerElement(node.outputs[0].element) == 4;
  return choice;
}

} // namespace

KernelChoice chooseCudaConvolution(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const std::vector<int64_t> &input = reader.inputType(node, 0).shape;
  KernelChoice choice = choiceFor(reader, "Convolution", input, reader.inputType(node, 1).shape,
                                  node.outputs[0].shape);
  const std::string layout = layoutFor(reader, input);
  addArgument(choice, reader, node, 0, layout);
  addArgument(choice, reader, node, 1, layout);
  if (reader.hasInput(node, 2)) {
    choice.fields.set("bias", int64_t(1));
    addArgument(choice, reader, node, 2);
  }
  if (reader.nodes.back()->op == "Relu")
    choice.fields.set("relu", int64_t(1));
  choice.outputLayouts = {layout};
  return choice;
}

/// Asked of cuDNN 9.19 for sm_90, which has such kernels in fp16 alone: for channels in eights, one
/// group and windows of up to 32 taps. A bias would stand between the convolution and its sums.
bool canSumChannels(const UnitView &unit, const UnitNode &convolution,
                    const UnitNode &normalisation, const DeviceOptions &options) {
  constexpr int64_t kMostTaps = 32, kLanes = 8;
  const TensorType &x = *unit.type(convolution.inputs.at(0)),
                   &w = *unit.type(convolution.inputs.at(1)), &y = convolution.outputs.at(0);
  const bool hasBias = convolution.inputs.size() > 2 && unit.type(convolution.inputs[2]);
  if (options.exact || options.precision != Precision::fp16 || hasBias || x.rank() != 4)
    return false;
  return x.element == ElementType::f16 && w.element == x.element && y.element == x.element &&
         normalisation.outputs.at(0) == y && w.shape[1] == x.shape[1] && x.shape[1] % kLanes == 0 &&
         y.shape[1] % kLanes == 0 && w.shape[2] * w.shape[3] <= kMostTaps;
}

KernelChoice chooseCudaConvolutionInputGradient(const UnitReader &reader) {
  return chooseGradient(reader, true);
}

KernelChoice chooseCudaConvolutionWeightGradient(const UnitReader &reader) {
  return chooseGradient(reader, false);
}

} // namespace pdc
