#include "compiler/devices/UnitReader.h"

#include <algorithm>

namespace pdc {

const TensorType *UnitView::type(UnitValue value) const {
  if (value.kind == UnitValue::Kind::operand && operands.at(value.index))
    return &*operands[value.index];
  if (value.kind == UnitValue::Kind::node)
    return &nodes.at(value.index).outputs.at(value.result);
  return nullptr;
}

std::string_view UnitView::layout(size_t operand) const {
  return operand < operandLayouts.size() ? std::string_view(operandLayouts[operand])
                                         : std::string_view();
}

UnitReader::UnitReader(const UnitView &unit, const DeviceOptions &options)
    : unit(unit), options(options) {
  for (const UnitNode &node : unit.nodes)
    if (node.op != "Constant")
      nodes.push_back(&node);
}

const Tensor *UnitReader::constant(const UnitNode &node, size_t input) const {
  if (input >= node.inputs.size() || node.inputs[input].kind != UnitValue::Kind::node)
    return nullptr;
  const UnitNode &source = unit.nodes.at(node.inputs[input].index);
  return source.op == "Constant" ? source.attributes->tensor("value") : nullptr;
}

bool UnitReader::hasInput(const UnitNode &node, size_t input) const {
  return input < node.inputs.size() && unit.type(node.inputs[input]);
}

const TensorType &UnitReader::inputType(const UnitNode &node, size_t input) const {
  if (!hasInput(node, input))
    refuse("input " + std::to_string(input) + " of '" + std::string(node.name) + "' is left out");
  return *unit.type(node.inputs[input]);
}

int UnitReader::operand(const UnitNode &node, size_t input) const {
  inputType(node, input);
  if (node.inputs[input].kind != UnitValue::Kind::operand)
    refuse("input " + std::to_string(input) + " of '" + std::string(node.name) +
           "' must come from outside the unit");
  return node.inputs[input].index;
}

std::string_view UnitReader::layout(const UnitNode &node, size_t input) const {
  return unit.layout(operand(node, input));
}

const NodeView &UnitReader::view(const UnitNode &node) const {
  std::vector<const TensorType *> inputs;
  std::vector<const Tensor *> constants;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    inputs.push_back(unit.type(node.inputs[i]));
    constants.push_back(constant(node, i));
  }
  static const Attributes none;
  described.push_back({std::move(inputs),
                       std::move(constants),
                       {node.op,
                        node.name,
                        node.attributes ? *node.attributes : none,
                        {},
                        {},
                        node.outputs.size()}});
  Described &kept = described.back();
  kept.view.inputs = kept.inputs;
  kept.view.constants = kept.constants;
  return kept.view;
}

std::vector<int64_t> UnitReader::integers(const UnitNode &node, size_t input) const {
  const Tensor *value = constant(node, input);
  if (!value)
    refuse("input " + std::to_string(input) + " of '" + std::string(node.name) +
           "' must be known at compile time");
  return value->toIntegers();
}

std::vector<int64_t> UnitReader::resultSlots(const UnitNode &from, size_t first) const {
  std::vector<int64_t> slots;
  for (size_t i = first; i < unit.results.size(); ++i) {
    const UnitValue value = unit.results[i];
    const UnitNode &source = unit.nodes.at(value.index);
    bool isEpilogue = &source == nodes.back() && &source != &from;
    if (&source != &from && !isEpilogue)
      refuse("a result of '" + std::string(source.name) + "' is read outside");
    slots.push_back(isEpilogue ? 0 : value.result);
  }
  return slots;
}

void UnitReader::refuse(const std::string &why) const {
  std::string types;
  for (const auto &operand : unit.operands)
    types += (types.empty() ? "" : ", ") + (operand ? operand->toString() : std::string("absent"));
  std::string ops;
  for (const UnitNode *node : nodes)
    ops += (ops.empty() ? "" : "+") + std::string(node->op);
  throw Error("unit '" + std::string(unit.name) + "' (" + ops + " on " + types + "): " + why);
}

void addArgument(KernelChoice &choice, const UnitReader &reader, const UnitNode &node, size_t input,
                 std::string_view layout) {
  bool there = reader.hasInput(node, input);
  choice.arguments.push_back(there ? reader.operand(node, input) : -1);
  choice.inputLayouts.emplace_back(there ? layout : "");
}

void setCompute(KernelChoice &choice, const UnitReader &reader) {
  const Precision precision = reader.options.precision;
  if (precision == Precision::fp32)
    return;
  const bool isNarrow = bytesPerElement(reader.inputType(reader.node(0), 0).element) == 2;
  choice.fields.set("compute", std::string(toString(isNarrow ? precision : Precision::tf32)));
  if (isNarrow && reader.nodes.back()->outputs[0].element == ElementType::f32)
    choice.fields.set("result", std::string("fp32"));
}

std::string tagLetters(int64_t first, int64_t rank) {
  std::string letters;
  for (int64_t d = first; d < rank; ++d)
    letters += static_cast<char>('a' + d);
  return letters;
}

std::string channelsLast(int64_t rank) { return "a" + tagLetters(2, rank) + "b"; }

std::string imageLayout(const UnitReader &reader, int64_t rank) {
  if (reader.options.kind == DeviceKind::cuda)
    return channelsLast(rank);
  return "aB" + tagLetters(2, rank) + std::to_string(reader.options.vectorWidth) + "b";
}

bool isImageOfChannels(const UnitReader &reader, const std::vector<int64_t> &numbers) {
  const TensorType &result = reader.node(0).outputs[0];
  return reader.options.kind == DeviceKind::cuda && result.rank() > 3 &&
         areReordered(result.element) && numbers.size() == result.shape.size() &&
         std::all_of(numbers.begin() + 2, numbers.end(), [](int64_t size) { return size == 1; });
}

bool areReordered(ElementType element) {
  return element == ElementType::f32 || bytesPerElement(element) == 2;
}

} // namespace pdc
