#include "compiler/devices/LoopWalk.h"
#include "compiler/devices/UnitReader.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>

namespace pdc {

namespace {

/// What the operator's reference makes of one number per operand.
std::vector<double> valuesAt(const UnitNode &node, std::span<const double> operands) {
  std::vector<Tensor> numbers;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    numbers.push_back(Tensor::scalar(ElementType::f64, operands[i % operands.size()]));
  std::vector<const Tensor *> inputs;
  std::vector<const TensorType *> types;
  for (const Tensor &number : numbers) {
    inputs.push_back(&number);
    types.push_back(&number.type);
  }
  NodeView view{node.op, node.name, *node.attributes, types, {}, node.outputs.size()};
  std::vector<double> values;
  for (const Tensor &result : findOperator(node.op)->evaluate(view, inputs))
    values.push_back(result.data[0]);
  return values;
}

/// Zero in, zero out: these may run over the padding of blocked layouts, which must stay zero.
bool keepsZero(const UnitNode &node) {
  static constexpr double zero[] = {0};
  return std::ranges::all_of(valuesAt(node, zero), [](double value) { return value == 0; });
}

/// Whole numbers in, whole numbers out: these are loops over integers too, which have neither
/// quotients nor functions.
bool keepsWhole(const UnitNode &node) {
  static constexpr double values[] = {-2, 0, 1, 3};
  for (int i = 0; i < 64; ++i) {
    const double operands[] = {values[i % 4], values[i / 4 % 4], values[i / 16]};
    for (double value : valuesAt(node, operands))
      if (value != std::trunc(value))
        return false;
  }
  return true;
}

bool isScalarConstant(const UnitReader &reader, const UnitNode &node, size_t input) {
  const Tensor *constant = reader.constant(node, input);
  return constant && constant->data.size() == 1;
}

/// Whether the chain may run over padding.
bool keepsPadding(const UnitReader &reader) {
  return std::all_of(reader.nodes.begin(), reader.nodes.end(), [&](const UnitNode *node) {
    for (size_t i = 0; i < node->inputs.size(); ++i)
      if (!reader.hasInput(*node, i) || reader.inputType(*node, i).element != ElementType::f32 ||
          (reader.inputType(*node, i).elementCount() == 1 && node->op != "Mul"))
        return false;
    return node->outputs[0].element == ElementType::f32 && keepsZero(*node);
  });
}

/// Whether an operand is one number for all elements of the result: the loop keeps it.
bool isNumber(const UnitReader &reader, const TensorType &type) {
  return type.elementCount() == 1 && reader.node(0).outputs[0].elementCount() > 1;
}

/// Whether all that lies in the loop's layout can be brought there, and from there to others.
bool areReordered(const UnitReader &reader) {
  auto mayMove = [&](const std::optional<TensorType> &type) {
    return !type || isNumber(reader, *type) || areReordered(type->element);
  };
  return std::ranges::all_of(reader.unit.operands, mayMove) &&
         std::ranges::all_of(reader.unit.results, [&](const UnitValue &result) {
           return areReordered(reader.unit.type(result)->element);
         });
}

/// The layout of the first image that arrives blocked; the others are brought to it.
std::string chainLayout(const UnitReader &reader) {
  if (!areReordered(reader))
    return "";
  for (size_t i = 0; i < reader.unit.operands.size(); ++i) {
    const auto &type = reader.unit.operands[i];
    std::string layout(reader.unit.layout(i));
    if (!type || layout.empty() || layout.find(':') != layout.npos)
      continue;
    bool padded = elementsInLayout(*type, layout) != type->elementCount();
    if (!padded || keepsPadding(reader))
      return layout;
  }
  return "";
}

/// Integers divide by zero and have no functions.
void checkElements(const UnitReader &reader) {
  for (const UnitNode *node : reader.nodes) {
    ElementType element = node->outputs[0].element;
    bool isInteger = !isFloatingPoint(element) && element != ElementType::boolean;
    if (isInteger && !keepsWhole(*node))
      reader.refuse("operator " + std::string(node->op) + " has no loop that makes " +
                    node->outputs[0].toString());
  }
}

/// The dimensions of a result in its layout, and the strides that the unit's operands have along
/// them.
LoopWalk walkOf(const UnitReader &reader, std::string_view layout) {
  const TensorType &result = reader.node(0).outputs[0];
  const std::vector<StoredDimension> stored = storedDimensions(result, layout);
  std::vector<std::vector<int64_t>> strides;
  for (const auto &operand : reader.unit.operands)
    strides.push_back(operand ? stridesAlong(*operand, result.shape, stored)
                              : std::vector<int64_t>(stored.size(), 0));
  return {stored, strides};
}

/// Whether nothing but numbers of channels is repeated over an image.
bool makesImage(const UnitReader &reader) {
  return areReordered(reader) &&
         std::ranges::all_of(reader.unit.operands, [&](const std::optional<TensorType> &operand) {
           return !operand || isNumber(reader, *operand) ||
                  isImageOfChannels(reader, operand->shape);
         });
}

/// The layout in which the first operand of the result's shape arrives, where no element is
/// padding.
std::string repeatedLayout(const UnitReader &reader) {
  const TensorType &result = reader.node(0).outputs[0];
  for (size_t i = 0; areReordered(reader) && i < reader.unit.operands.size(); ++i) {
    const auto &type = reader.unit.operands[i];
    std::string layout(reader.unit.layout(i));
    if (type && type->shape == result.shape && !layout.empty() && layout.find(':') == layout.npos &&
        elementsInLayout(*type, layout) == type->elementCount())
      return layout;
  }
  return makesImage(reader) ? imageLayout(reader, result.rank()) : "";
}

/// Operands that are repeated along dimensions: they are row-major, the others lie as the result.
KernelChoice chooseBroadcast(const UnitReader &reader) {
  const TensorType &result = reader.node(0).outputs[0];
  if (reader.unit.results.size() != 1 || result.elementCount() == 0)
    reader.refuse("a loop over repeated operands has one result with elements");
  const std::string layout = repeatedLayout(reader);
  const LoopWalk walk = walkOf(reader, layout);
  KernelChoice choice;
  choice.kernel = "Broadcast";
  choice.fields = {{"extents", walk.extents}, {"strides", walk.listed(0, walk.strides.size())}};
  ElementType made = reader.unit.type(reader.unit.results[0])->element;
  for (size_t i = 0; i < reader.unit.operands.size(); ++i) {
    const auto &operand = reader.unit.operands[i];
    choice.arguments.push_back(operand ? static_cast<int>(i) : -1);
    const bool isWhole = operand && operand->shape == result.shape;
    choice.inputLayouts.push_back(isWhole ? layout : "");
    if (isWhole && bytesPerElement(operand->element) == bytesPerElement(made))
      choice.inPlace.push_back({static_cast<int>(i), 0});
  }
  choice.outputLayouts = {layout};
  return choice;
}

} // namespace

bool isUniform(const UnitReader &reader, const UnitNode &node) {
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (reader.hasInput(node, i) && !isScalarConstant(reader, node, i) &&
        !isNumber(reader, reader.inputType(node, i)) &&
        reader.inputType(node, i).shape != node.outputs[0].shape)
      return false;
  return true;
}

/// A chain of equal shapes is one loop; its body is printed from the operators' expressions.
KernelChoice chooseElementwise(const UnitReader &reader) {
  checkElements(reader);
  for (const UnitNode *node : reader.nodes)
    if (!isUniform(reader, *node))
      return chooseBroadcast(reader);
  KernelChoice choice;
  choice.kernel = "Elementwise";
  std::string layout = chainLayout(reader);
  for (size_t i = 0; i < reader.unit.operands.size(); ++i) {
    const auto &operand = reader.unit.operands[i];
    bool isTensor = operand && !isNumber(reader, *operand);
    choice.arguments.push_back(operand ? static_cast<int>(i) : -1);
    choice.inputLayouts.push_back(isTensor ? layout : "");
    for (size_t r = 0; isTensor && r < reader.unit.results.size(); ++r)
      if (bytesPerElement(operand->element) ==
          bytesPerElement(reader.unit.type(reader.unit.results[r])->element))
        choice.inPlace.push_back({static_cast<int>(i), static_cast<int>(r)});
  }
  choice.outputLayouts.assign(reader.unit.results.size(), layout);
  return choice;
}

} // namespace pdc
