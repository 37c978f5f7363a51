#include "compiler/devices/UnitReader.h"
#include "compiler/operators/Rules.h"

namespace pdc {

namespace {

/// Rows from the axis on; the kernels read one number of scale and bias per element of a row.
void setRows(KernelChoice &choice, const UnitReader &reader, const UnitNode &node,
             const TensorType &x) {
  int64_t axis = axisFromStart(reader.view(node), node.attributes->integer("axis", -1), x.rank());
  choice.fields = {{"epsilon", node.attributes->number("epsilon", 1e-5)},
                   {"rows", product(x.shape, 0, axis)},
                   {"size", product(x.shape, axis)}};
  if (node.op == "RMSNormalization")
    choice.fields.set("centred", int64_t(0));
}

void checkWhole(const UnitReader &reader, const TensorType &x, const TensorType &repeated,
                const UnitNode &node) {
  int64_t axis = axisFromStart(reader.view(node), node.attributes->integer("axis", -1), x.rank());
  if (repeated.elementCount() != product(x.shape, axis))
    reader.refuse("the kernel reads one number per element of a row, found " + repeated.toString());
}

} // namespace

KernelChoice chooseLayerNormalization(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const TensorType &x = reader.inputType(node, 0);
  KernelChoice choice;
  choice.kernel = "LayerNormalization";
  setRows(choice, reader, node, x);
  for (size_t i = 0; i < 3; ++i) {
    if (i > 0 && reader.hasInput(node, i))
      checkWhole(reader, x, reader.inputType(node, i), node);
    addArgument(choice, reader, node, i);
  }
  std::vector<int64_t> slots = reader.resultSlots(node);
  const size_t all = node.outputs.size();
  if ((slots.size() != 1 && slots.size() != all) || slots[0] != 0)
    reader.refuse("the kernel makes the normalised rows alone or with mean and deviation");
  choice.outputLayouts.assign(slots.size(), "");
  choice.inPlace = {{0, 0}};
  return choice;
}

KernelChoice chooseLayerNormalizationGradient(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const TensorType &x = reader.inputType(node, 1);
  bool isInput = node.op == "LayerNormalizationInputGrad";
  checkWhole(reader, x, isInput ? reader.inputType(node, 2) : node.outputs[0], node);
  KernelChoice choice;
  choice.kernel = isInput ? "LayerNormalizationInputGradient" : "LayerNormalizationScaleGradient";
  setRows(choice, reader, node, x);
  for (size_t i = 0; i < node.inputs.size(); ++i)
    addArgument(choice, reader, node, i);
  choice.outputLayouts = {""};
  choice.accumulates = !isInput;
  if (isInput)
    choice.inPlace = {{0, 0}};
  return choice;
}

} // namespace pdc
