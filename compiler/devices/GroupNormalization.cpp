#include "compiler/devices/UnitReader.h"

namespace pdc {

namespace {

/// Channels innermost on GPUs; on the CPU as the image arrives, in channel blocks or row-major.
std::string layoutFor(const UnitReader &reader, const UnitNode &node, size_t image) {
  const int64_t rank = reader.inputType(node, image).rank();
  if (rank == 2)
    return "";
  const std::string blocked = imageLayout(reader, rank);
  const bool isCpu = reader.options.kind == DeviceKind::cpu;
  return isCpu && reader.layout(node, image) != blocked ? "" : blocked;
}

KernelChoice choiceFor(const UnitReader &reader, const UnitNode &node, std::string kernel,
                       size_t images) {
  const TensorType &x = reader.inputType(node, images - 1);
  const std::string layout = layoutFor(reader, node, images - 1);
  const std::vector<int64_t> slots = reader.resultSlots(node);
  KernelChoice choice;
  choice.kernel = std::move(kernel);
  choice.fields = {{"epsilon", node.attributes->number("epsilon", 1e-5)},
                   {"groups", node.attributes->integer("num_groups", 1)},
                   {"input", x.shape},
                   {"layout", layout},
                   {"results", slots}};
  if (node.attributes->integer("swish", 0))
    choice.fields.set("swish", int64_t(1));
  for (size_t i = 0; i < images; ++i)
    addArgument(choice, reader, node, i, layout);
  for (size_t result = 0; result < slots.size(); ++result) {
    choice.outputLayouts.push_back(slots[result] == 0 ? layout : "");
    if (slots[result] == 0) // a group is summed before any of it is written
      choice.inPlace.push_back({0, static_cast<int>(result)});
  }
  return choice;
}

} // namespace

KernelChoice chooseGroupNormalization(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  KernelChoice choice = choiceFor(reader, node, "GroupNormalization", 1);
  for (size_t i : {1, 2})
    addArgument(choice, reader, node, i);
  return choice;
}

/// The sums of each channel of each sample lie in the workspace.
KernelChoice chooseGroupNormalizationGradient(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  KernelChoice choice = choiceFor(reader, node, "GroupNormalizationGradient", 2);
  for (size_t i = 2; i < 6; ++i)
    addArgument(choice, reader, node, i);
  const TensorType &x = reader.inputType(node, 1);
  choice.workspaceBytes = 2 * 4 * x.shape[0] * x.shape[1];
  return choice;
}

} // namespace pdc
