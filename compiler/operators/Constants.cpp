#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>

namespace pdc {

/// Constant's attribute is always `value`; opset 12 has five more spellings of it.
static void normaliseConstant(ImportedNode &node, int opset) {
  if (node.attributes.tensor("value"))
    return;
  Tensor value;
  if (node.attributes.has("value_int"))
    value = Tensor::scalar(ElementType::i64, node.attributes.integer("value_int", 0));
  else if (node.attributes.has("value_ints"))
    value = Tensor::vector(node.attributes.integers("value_ints"));
  else if (node.attributes.has("value_float"))
    value = Tensor::scalar(ElementType::f32, node.attributes.number("value_float", 0));
  else if (const Attribute *floats = node.attributes.find("value_floats")) {
    const auto *numbers = std::get_if<std::vector<double>>(floats);
    if (!numbers)
      refuse(node, opset, "attribute 'value_floats' is not a list of numbers");
    value = {{ElementType::f32, {static_cast<int64_t>(numbers->size())}}, *numbers};
  } else
    refuse(node, opset,
           "has no value that is supported; supported are tensors, numbers and lists "
           "of numbers");
  node.attributes = {{"value", value}};
}

static const Tensor &valueOf(const NodeView &node) {
  if (const Tensor *value = node.attributes.tensor("value"))
    return *value;
  refuse(node, "attribute 'value' is missing");
}

static std::vector<TensorType> inferConstant(const NodeView &node) { return {valueOf(node).type}; }

static std::vector<Tensor> evaluateConstant(const NodeView &node, std::span<const Tensor *const>) {
  return {valueOf(node)};
}

static Tensor fillOf(const NodeView &node) {
  const Tensor *value = node.attributes.tensor("value");
  if (!value)
    return Tensor::scalar(ElementType::f32, 0);
  if (value->data.size() != 1)
    refuse(node, "attribute 'value' is " + value->type.toString() + ", expected one element");
  return *value;
}

static std::vector<TensorType> inferConstantOfShape(const NodeView &node) {
  return {{fillOf(node).type.element, knownIntegers(node, 0)}};
}

static std::vector<Tensor> evaluateConstantOfShape(const NodeView &node,
                                                   std::span<const Tensor *const> inputs) {
  Tensor result = Tensor::zeros(typesFrom(node, inputs)[0]);
  result.data.assign(result.data.size(), fillOf(node).data[0]);
  return {result};
}

/// The dimensions that Shape gives: all, or from `start` to `end` since opset 15.
static std::vector<int64_t> shapeSlice(const NodeView &node) {
  const std::vector<int64_t> &shape = node.input(0).shape;
  int64_t rank = shape.size();
  auto bound = [&](const char *name, int64_t otherwise) {
    int64_t value = node.attributes.integer(name, otherwise);
    value = std::clamp<int64_t>(value, -rank, rank);
    return value < 0 ? value + rank : value;
  };
  int64_t start = bound("start", 0), end = bound("end", rank);
  return start < end ? std::vector<int64_t>(shape.begin() + start, shape.begin() + end)
                     : std::vector<int64_t>();
}

static std::vector<TensorType> inferShape(const NodeView &node) {
  return {{ElementType::i64, {static_cast<int64_t>(shapeSlice(node).size())}}};
}

static std::vector<Tensor> evaluateShape(const NodeView &node, std::span<const Tensor *const>) {
  return {Tensor::vector(shapeSlice(node))};
}

static std::vector<TensorType> inferSize(const NodeView &) { return {{ElementType::i64, {}}}; }

static std::vector<Tensor> evaluateSize(const NodeView &node, std::span<const Tensor *const>) {
  return {Tensor::scalar(ElementType::i64, static_cast<double>(node.input(0).elementCount()))};
}

/// TensorProto.DataType.
static constexpr std::pair<int64_t, ElementType> kOnnxTypes[] = {
    {1, ElementType::f32},  {2, ElementType::u8},   {3, ElementType::i8},
    {6, ElementType::i32},  {7, ElementType::i64},  {9, ElementType::boolean},
    {10, ElementType::f16}, {11, ElementType::f64}, {16, ElementType::bf16},
};

static ElementType castTarget(const NodeView &node) {
  const int64_t to = node.attributes.integer("to", 0);
  for (auto [number, element] : kOnnxTypes)
    if (number == to)
      return element;
  refuse(node,
         "casts to ONNX type " + std::to_string(to) +
             "; supported are float, double, float16, bfloat16, int64, int32, int8, uint8, bool");
}

int64_t onnxType(ElementType sought) {
  for (auto [number, element] : kOnnxTypes)
    if (element == sought)
      return number;
  throw Error("an element type without a number in ONNX");
}

static std::vector<TensorType> inferCast(const NodeView &node) {
  return {{castTarget(node), node.input(0).shape}};
}

static std::vector<Tensor> evaluateCast(const NodeView &node,
                                        std::span<const Tensor *const> inputs) {
  Tensor result{inferCast(node)[0], inputs[0]->data};
  for (double &value : result.data)
    value = toElement(result.type.element, value);
  return {result};
}

/// `saturate` (opset 19) and `round_mode` (opset 24) say what becomes of numbers that floats of 8
/// bits, which are refused, do not have.
static void normaliseCast(ImportedNode &node, int) {
  node.attributes.erase("saturate");
  node.attributes.erase("round_mode");
}

static void differentiateCast(GradientBuilder &b) {
  ElementType from = b.type(b.input(0)).element;
  if (b.wants(0) && isFloatingPoint(from))
    b.setInputGradient(0, add(b, "Cast", {b.outputGradient(0)}, {{"to", onnxType(from)}}));
}

/// Elements of start, start + delta, ... before limit.
static int64_t rangeCount(const NodeView &node) {
  double bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    node.input(i);
    const Tensor *value = node.constant(i);
    if (!value || value->data.size() != 1)
      refuse(node, "start, limit and delta must be scalars known at compile time");
    bounds[i] = value->data[0];
  }
  double count = bounds[2] == 0 ? -1 : std::ceil((bounds[1] - bounds[0]) / bounds[2]);
  if (bounds[2] == 0 || !(count <= 1 << 30))
    refuse(node, "a delta of " + std::to_string(bounds[2]) + " gives too many elements");
  return std::max<int64_t>(0, static_cast<int64_t>(count));
}

static std::vector<TensorType> inferRange(const NodeView &node) {
  return {{node.input(0).element, {rangeCount(node)}}};
}

static std::vector<Tensor> evaluateRange(const NodeView &node,
                                         std::span<const Tensor *const> inputs) {
  Tensor result = Tensor::zeros(typesFrom(node, inputs)[0]);
  for (size_t i = 0; i < result.data.size(); ++i)
    result.data[i] = inputs[0]->data[0] + static_cast<double>(i) * inputs[2]->data[0];
  return {result};
}

/// Of which index in a dimension, for each element that is not zero.
static std::vector<TensorType> inferNonZero(const NodeView &node) {
  const TensorType &x = node.input(0);
  const Tensor *value = node.constant(0);
  if (!value)
    refuse(node, "has as many results as its input " + x.toString() +
                     " has elements that are not zero, so that it must be known at compile time, "
                     "but it depends on data; export the model with a mask in its place");
  const int64_t count = std::ranges::count_if(value->data, [](double x) { return x != 0; });
  return {{ElementType::i64, {x.rank(), count}}};
}

static std::vector<Tensor> evaluateNonZero(const NodeView &node,
                                           std::span<const Tensor *const> inputs) {
  const Tensor &x = *inputs[0];
  Tensor y = Tensor::zeros(typesFrom(node, inputs)[0]);
  const int64_t count = y.type.shape[1];
  std::vector<int64_t> index(x.type.shape.size());
  int64_t found = 0;
  for (double value : x.data) {
    for (size_t d = 0; value != 0 && d < index.size(); ++d)
      y.data[static_cast<int64_t>(d) * count + found] = static_cast<double>(index[d]);
    found += value != 0;
    advance(index, x.type.shape);
  }
  return {y};
}

std::span<const Operator> constantOperators() {
  static const Operator operators[] = {
      {.name = "Constant",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .kind = OperatorClass::constant,
       .outputs = {{"output"}},
       .normalise = normaliseConstant,
       .infer = inferConstant,
       .evaluate = evaluateConstant,
       .stopsGradient = true},
      {.name = "ConstantOfShape",
       .firstOpset = 9,
       .lastOpset = kLastOpset,
       .kind = OperatorClass::constant,
       .inputs = {{.name = "shape", .known = true}},
       .outputs = {{"output"}},
       .elements = {ElementType::i64},
       .infer = inferConstantOfShape,
       .evaluate = evaluateConstantOfShape,
       .stopsGradient = true},
      {.name = "Shape",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .kind = OperatorClass::constant,
       .inputs = {{"data"}},
       .outputs = {{"shape"}},
       .infer = inferShape,
       .evaluate = evaluateShape,
       .stopsGradient = true},
      {.name = "Size",
       .firstOpset = 1,
       .lastOpset = kLastOpset,
       .kind = OperatorClass::constant,
       .inputs = {{"data"}},
       .outputs = {{"size"}},
       .infer = inferSize,
       .evaluate = evaluateSize,
       .stopsGradient = true},
      {.name = "NonZero",
       .firstOpset = 9,
       .lastOpset = kLastOpset,
       .kind = OperatorClass::constant,
       .inputs = {{.name = "X", .known = true}},
       .outputs = {{"Y"}},
       .infer = inferNonZero,
       .evaluate = evaluateNonZero,
       .stopsGradient = true},
      {.name = "Range",
       .firstOpset = 11,
       .lastOpset = kLastOpset,
       .kind = OperatorClass::constant,
       .inputs = {{.name = "start", .known = true},
                  {.name = "limit", .known = true},
                  {.name = "delta", .known = true}},
       .outputs = {{"output"}},
       .infer = inferRange,
       .evaluate = evaluateRange,
       .stopsGradient = true},
      {.name = "Cast",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .kind = OperatorClass::elementwise,
       .inputs = {{"input"}},
       .outputs = {{"output"}},
       .normalise = normaliseCast,
       .infer = inferCast,
       .evaluate = evaluateCast,
       .differentiate = differentiateCast,
       // A boolean (ONNX's type 9) is 0 or 1, whatever the number was.
       .expressions = {"$to == 9 ? $0 != 0 : $0"}},
  };
  return operators;
}

} // namespace pdc
