#include "compiler/operators/Rules.h"

#include <algorithm>
#include <set>

namespace pdc {

void refuse(const NodeView &node, const std::string &what) {
  throw Error("node '" + std::string(node.name) + "' (" + std::string(node.op) + "): " + what);
}

void refuse(const ImportedNode &node, int opset, const std::string &what) {
  throw Error("node '" + node.name + "' (" + node.op + ", opset " + std::to_string(opset) +
              "): " + what);
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

std::vector<ElementType> floatElements() {
  return {ElementType::f32, ElementType::f64, ElementType::f16, ElementType::bf16};
}

std::vector<ElementType> numberElements() {
  std::vector<ElementType> elements = floatElements();
  elements.insert(elements.end(), {ElementType::i32, ElementType::i64});
  return elements;
}

int64_t axisFromStart(const NodeView &node, int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    refuse(node,
           "axis " + std::to_string(axis) + " is outside a tensor of rank " + std::to_string(rank));
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> axesFromStart(const NodeView &node, std::vector<int64_t> axes, int64_t rank) {
  std::set<int64_t> seen;
  for (int64_t &axis : axes) {
    axis = axisFromStart(node, axis, rank);
    if (!seen.insert(axis).second)
      refuse(node, "axis " + std::to_string(axis) + " is named twice");
  }
  return axes;
}

std::vector<int64_t> knownIntegers(const NodeView &node, size_t input) {
  node.input(input);
  if (const Tensor *value = node.constant(input)) {
    if (isFloatingPoint(value->type.element))
      refuse(node, "input " + std::to_string(input) + " is " + value->type.toString() +
                       ", expected integers");
    return value->toIntegers();
  }
  refuse(node,
         "input " + std::to_string(input) +
             " must be known at compile time, but it depends on data; export with fixed shapes");
}

std::vector<int64_t> stridesOf(const std::vector<int64_t> &shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

int64_t product(const std::vector<int64_t> &values, size_t first, size_t last) {
  int64_t result = 1;
  for (size_t i = first; i < std::min(last, values.size()); ++i)
    result *= values[i];
  return result;
}

bool advance(std::vector<int64_t> &index, const std::vector<int64_t> &shape) {
  for (size_t i = shape.size(); i-- > 0;) {
    if (++index[i] < shape[i])
      return true;
    index[i] = 0;
  }
  return false;
}

int64_t offsetOf(const std::vector<int64_t> &index, const std::vector<int64_t> &strides) {
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i)
    offset += index[i] * strides[i];
  return offset;
}

std::vector<int64_t> broadcastShape(const NodeView &node, const std::vector<int64_t> &a,
                                    const std::vector<int64_t> &b) {
  std::vector<int64_t> result(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t sizeA = i < a.size() ? a[a.size() - 1 - i] : 1;
    int64_t sizeB = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (sizeA != sizeB && sizeA != 1 && sizeB != 1)
      refuse(node, "shapes " + shapeText(a) + " and " + shapeText(b) + " do not broadcast");
    result[result.size() - 1 - i] = sizeA == 1 ? sizeB : sizeA;
  }
  return result;
}

std::vector<int64_t> broadcastStrides(const std::vector<int64_t> &shape,
                                      const std::vector<int64_t> &to) {
  std::vector<int64_t> own = stridesOf(shape), result(to.size(), 0);
  size_t missing = to.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1)
      result[missing + i] = own[i];
  return result;
}

std::vector<TensorType> typesFrom(const NodeView &node, std::span<const Tensor *const> inputs) {
  NodeView known = node;
  known.constants = inputs;
  return findOperator(node.op)->infer(known);
}

std::vector<TensorType> inferLikeFirst(const NodeView &node) { return {node.input(0)}; }

std::vector<Tensor> evaluateAsView(const NodeView &node, std::span<const Tensor *const> inputs) {
  return {Tensor{typesFrom(node, inputs)[0], inputs[0]->data}};
}

GradientValue add(GradientBuilder &builder, std::string_view op, std::vector<GradientValue> inputs,
                  Attributes attributes) {
  return builder.node(op, std::move(inputs), std::move(attributes)).front();
}

GradientValue reshaped(GradientBuilder &builder, GradientValue value,
                       const std::vector<int64_t> &shape) {
  if (builder.type(value).shape == shape)
    return value;
  return add(builder, "Reshape", {value, builder.constant(Tensor::vector(shape))});
}

GradientValue reducedTo(GradientBuilder &builder, GradientValue gradient,
                        const std::vector<int64_t> &shape) {
  std::vector<int64_t> from = builder.type(gradient).shape;
  if (from == shape)
    return gradient;
  size_t missing = from.size() - shape.size();
  std::vector<int64_t> axes;
  for (size_t i = 0; i < from.size(); ++i)
    if (i < missing || (shape[i - missing] == 1 && from[i] != 1))
      axes.push_back(i);
  bool onlyMissing = axes.size() == missing;
  GradientValue sum = gradient;
  if (!axes.empty())
    sum = add(builder, "ReduceSum", {gradient, builder.constant(Tensor::vector(axes))},
              {{"keepdims", int64_t(!onlyMissing)}});
  return reshaped(builder, sum, shape);
}

void differentiateAsView(GradientBuilder &builder) {
  if (builder.wants(0))
    builder.setInputGradient(
        0, reshaped(builder, builder.outputGradient(0), builder.type(builder.input(0)).shape));
}

void setInput(ImportedNode &node, size_t input, std::string name) {
  if (node.inputs.size() <= input)
    node.inputs.resize(input + 1);
  node.inputs[input] = std::move(name);
}

void attributeToInput(ImportedNode &node, std::string_view attribute, size_t input) {
  if (!node.attributes.has(attribute))
    return;
  setInput(node, input, node.addConstant(Tensor::vector(node.attributes.integers(attribute))));
  node.attributes.erase(attribute);
}

} // namespace pdc
