#include "passes/RepeatedConstants.h"

#include "compiler/operators/Rules.h"
#include "passes/ConstantRows.h"

#include <algorithm>

using namespace mlir;
using pdc::ir::NodeOp;

namespace pdc {

namespace {

/// The constant's dimensions, 1 where its elements repeat.
std::vector<int64_t> distinctSizes(const Tensor &constant) {
  std::vector<int64_t> sizes = constant.type.shape;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t inner = product(constant.type.shape, d + 1), whole = inner * sizes[d];
    bool repeats = whole > 0;
    for (int64_t begin = 0; repeats && begin < constant.type.elementCount(); begin += whole) {
      auto first = constant.data.begin() + begin;
      repeats = std::equal(first, first + whole - inner, first + inner);
    }
    if (repeats)
      sizes[d] = 1;
  }
  return sizes;
}

Tensor withoutRepetition(const Tensor &constant, const std::vector<int64_t> &sizes) {
  Tensor part = Tensor::zeros({constant.type.element, sizes});
  const std::vector<int64_t> strides = stridesOf(constant.type.shape);
  std::vector<int64_t> index(sizes.size());
  for (double &element : part.data) {
    element = constant.data[offsetOf(index, strides)];
    advance(index, sizes);
  }
  return part;
}

NodeValue repeated(CompositionBuilder &builder, NodeValue part, const std::vector<int64_t> &shape) {
  return add(builder, "Expand", {part, builder.constant(Tensor::vector(shape))});
}

/// Of shapes that fit.
std::vector<int64_t> sharedShape(const NodeFacts &facts,
                                 llvm::ArrayRef<std::vector<int64_t>> shapes) {
  std::vector<int64_t> shared;
  for (const std::vector<int64_t> &shape : shapes)
    shared = broadcastShape(facts.view(), shared, shape);
  return shared;
}

std::vector<int64_t> dimensionsOf(Value value) { return toTensorType(value.getType()).shape; }

/// What a node repeats; null where it is no Expand.
Value repeatedBy(Value value) {
  auto node = value.getDefiningOp<NodeOp>();
  return node && node.getOp() == "Expand" ? node.getOperand(0) : Value();
}

bool isElementwise(const NodeFacts &facts) {
  return facts.rules().kind == OperatorClass::elementwise;
}

} // namespace

bool RepeatedConstants::isOfConstants(Value value) const {
  return pdc::isConstant(value.getDefiningOp()) || noted.contains(value);
}

bool RepeatedConstants::isNoted(NodeOp node) const {
  return node->getNumResults() == 1 && node->getNumOperands() > 0 &&
         llvm::all_of(node.getOperands(), [&](Value operand) {
           return isa<NoneType>(operand.getType()) || isOfConstants(operand);
         });
}

void RepeatedConstants::note(NodeOp node) {
  if (isNoted(node))
    noted.insert(node->getResult(0));
}

NodeValue RepeatedConstants::unrepeated(Value value, CompositionBuilder &builder) const {
  if (Value source = noted.contains(value) ? repeatedBy(value) : Value())
    value = source;
  const std::optional<Tensor> constant = constantOf(value);
  if (!constant)
    return wrap(value);
  const std::vector<int64_t> sizes = distinctSizes(*constant);
  return sizes == constant->type.shape ? wrap(value)
                                       : builder.constant(withoutRepetition(*constant, sizes));
}

std::vector<NodeValue> RepeatedConstants::shrink(const NodeFacts &facts, NodeOp node,
                                                 CompositionBuilder &builder) {
  if (!isNoted(node))
    return {};
  const std::vector<int64_t> shape = dimensionsOf(node->getResult(0));
  Value first = node.getOperand(0), source = noted.contains(first) ? repeatedBy(first) : Value();
  if (node.getOp() == "Expand")
    return source ? std::vector{repeated(builder, wrap(source), shape)} : std::vector<NodeValue>();
  if (isViewNode(node) && source) {
    std::vector<int64_t> sizes = dimensionsOf(source);
    sizes.insert(sizes.begin(), dimensionsOf(first).size() - sizes.size(), 1);
    auto seen = seenAs(dimensionsOf(first), shape, sizes);
    return seen ? std::vector{repeated(builder, reshaped(builder, wrap(source), *seen), shape)}
                : std::vector<NodeValue>();
  }
  if (!isElementwise(facts))
    return {};
  std::vector<NodeValue> parts;
  std::vector<std::vector<int64_t>> shapes;
  for (Value operand : node.getOperands()) {
    parts.push_back(unrepeated(operand, builder));
    shapes.push_back(builder.type(parts.back()).shape);
  }
  std::vector<int64_t> sizes = sharedShape(facts, shapes);
  if (product(sizes) == product(shape))
    return {};
  NodeValue part = add(builder, node.getOp().str(), parts, builder.attributes());
  return {repeated(builder, part, shape)};
}

void RepeatedConstants::readUnrepeated(const NodeFacts &facts, NodeOp node) {
  if (!isElementwise(facts) || node->getNumResults() != 1)
    return;
  for (OpOperand &operand : node->getOpOperands()) {
    Value source = noted.contains(operand.get()) ? repeatedBy(operand.get()) : Value();
    if (!source)
      continue;
    std::vector<std::vector<int64_t>> shapes;
    for (OpOperand &other : node->getOpOperands())
      shapes.push_back(dimensionsOf(&other == &operand ? source : other.get()));
    if (sharedShape(facts, shapes) == dimensionsOf(node->getResult(0)))
      operand.set(source);
  }
}

} // namespace pdc
