#include "compiler/devices/UnitReader.h"

namespace pdc {

/// The results that are gradients may lie where operands of their size do: each element is read
/// before it is written. Those of a forward pass that the backward pass reads stay where they are.
KernelChoice chooseRecurrentCell(const UnitReader &reader) {
  struct Cell {
    std::string_view op, kernel;
    size_t state;                                 ///< the input of the state's shape
    std::vector<std::pair<int, int64_t>> inPlace; ///< argument and the kernel's result
  };
  static const Cell cells[] = {
      {"LstmCell", "LstmCell", 1, {{1, 1}}},
      {"LstmCellGrad", "LstmCellGradient", 1, {{0, 0}, {1, 1}, {4, 1}}},
      {"GruCell", "GruCell", 2, {{2, 0}}},
      {"GruCellGrad", "GruCellGradient", 2, {{0, 0}, {1, 1}, {2, 2}, {3, 2}}},
  };
  const UnitNode &node = reader.node(0);
  const Cell *cell = std::begin(cells);
  while (cell->op != node.op)
    ++cell;
  const std::vector<int64_t> &shape = reader.inputType(node, cell->state).shape;
  const std::vector<int64_t> slots = reader.resultSlots(node);
  KernelChoice choice;
  choice.kernel = cell->kernel;
  choice.fields = {{"rows", shape.at(0)}, {"width", shape.at(1)}};
  if (node.op != "GruCell")
    choice.fields.set("results", slots);
  for (size_t i = 0; i < findOperator(node.op)->inputs.size(); ++i)
    addArgument(choice, reader, node, i);
  choice.outputLayouts.assign(slots.size(), "");
  for (const auto &[argument, slot] : cell->inPlace)
    for (size_t result = 0; result < slots.size(); ++result)
      if (slots[result] == slot && reader.hasInput(node, static_cast<size_t>(argument)))
        choice.inPlace.push_back({argument, static_cast<int>(result)});
  return choice;
}

} // namespace pdc
