#include "compiler/devices/UnitReader.h"

namespace pdc {

/// [Sum +] a step or its gradient, whose input 3 is the sum. The results that are gradients may lie
/// where operands of their size do: each element is read before it is written. Those of a forward
/// pass that the backward pass reads stay where they are.
KernelChoice chooseRecurrentCell(const UnitReader &reader) {
  struct Cell {
    std::string_view op, kernel;
    size_t state;                                 ///< the input of the state's shape
    std::vector<std::pair<int, int64_t>> inPlace; ///< argument and the kernel's result
    int64_t ofTerms = -1;                         ///< the result that a further term may become
  };
  static const Cell cells[] = {
      {"LstmCell", "LstmCell", 1, {{1, 1}}},
      {"LstmCellGrad", "LstmCellGradient", 1, {{0, 0}, {1, 1}, {4, 1}}},
      {"GruCell", "GruCell", 2, {{2, 0}}},
      {"GruCellGrad", "GruCellGradient", 2, {{0, 0}, {1, 1}, {2, 2}, {3, 2}}, 2},
  };
  const UnitNode &node = *reader.nodes.back();
  const UnitNode *sum = reader.nodes.size() > 1 ? reader.nodes.front() : nullptr;
  if (sum && (reader.nodes.size() > 2 || sum->op != "Sum" || sum->inputs.size() < 2))
    reader.refuse("the kernel adds up what arrives at a state, and nothing else");
  const Cell *cell = std::begin(cells);
  while (cell->op != node.op)
    ++cell;
  const std::vector<int64_t> &shape = reader.inputType(node, cell->state).shape;
  const std::vector<int64_t> slots = reader.resultSlots(node);
  KernelChoice choice;
  choice.kernel = cell->kernel;
  choice.fields = {{"rows", shape.at(0)}, {"width", shape.at(1)}};
  if (const Attribute *gates = node.attributes->find("gates"))
    choice.fields.set("gates", *gates);
  if (node.op != "GruCell")
    choice.fields.set("results", slots);
  constexpr size_t kArriving = 3;
  for (size_t i = 0; i < findOperator(node.op)->inputs.size(); ++i)
    if (sum && i == kArriving)
      addArgument(choice, reader, *sum, 0);
    else
      addArgument(choice, reader, node, i);
  std::vector<std::pair<int, int64_t>> inPlace = cell->inPlace;
  for (size_t term = 1; sum && term < sum->inputs.size(); ++term) {
    inPlace.emplace_back(static_cast<int>(choice.arguments.size()), cell->ofTerms);
    addArgument(choice, reader, *sum, term);
  }
  if (sum)
    choice.fields.set("terms", static_cast<int64_t>(sum->inputs.size()));
  choice.outputLayouts.assign(slots.size(), "");
  for (const auto &[argument, slot] : inPlace)
    for (size_t result = 0; result < slots.size(); ++result)
      if (slots[result] == slot && choice.arguments.at(static_cast<size_t>(argument)) >= 0)
        choice.inPlace.push_back({argument, static_cast<int>(result)});
  return choice;
}

} // namespace pdc
