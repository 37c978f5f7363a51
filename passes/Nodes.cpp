#include "passes/Nodes.h"

#include "compiler/operators/TensorSize.h"

#include <algorithm>

using namespace mlir;
using pdc::ir::NodeOp;

namespace pdc {

DenseElementsAttr elementsOf(Value value) {
  auto node = value.getDefiningOp<NodeOp>();
  if (!node || !isConstant(node))
    return {};
  auto elements = dyn_cast_or_null<DenseElementsAttr>(node.getOnnxAttributes().get("value"));
  if (!elements)
    throw Error("constant '" + node.getName().str() + "' holds no tensor in its attribute 'value'");
  return elements;
}

std::optional<Tensor> constantOf(Value value) {
  DenseElementsAttr elements = elementsOf(value);
  return elements ? std::optional(toTensor(elements)) : std::nullopt;
}

bool isConstant(Operation *op) {
  auto node = dyn_cast_or_null<NodeOp>(op);
  return node && node.getOp() == "Constant";
}

SmallVector<NodeOp> computingNodes(ir::UnitOp unit) {
  SmallVector<NodeOp> nodes;
  for (auto node : unit.getBody().getOps<NodeOp>())
    if (!isConstant(node))
      nodes.push_back(node);
  return nodes;
}

bool isViewNode(Operation *op) {
  auto node = dyn_cast_or_null<NodeOp>(op);
  const Operator *rules = node ? findOperator(node.getOp()) : nullptr;
  return rules && rules->kind == OperatorClass::view;
}

KernelAttr withoutName(KernelAttr kernel) {
  if (!kernel)
    return kernel;
  NamedAttrList fields(kernel.getFields());
  fields.erase("name");
  return KernelAttr::get(kernel.getContext(), kernel.getName(),
                         fields.getDictionary(kernel.getContext()), kernel.getWorkspace(),
                         kernel.getAccumulates(), kernel.getMultipliesPlain(),
                         kernel.getAddsToLast());
}

/// Elements up to which a constant is read whether a rule asks for it or not.
static constexpr int64_t kMostRead = 4096;

bool NodeFacts::reads(Value constant, size_t operand) const {
  if (found->inputs.empty())
    return true;
  bool known = found->inputs[std::min(operand, found->inputs.size() - 1)].known;
  return known || elementsOf(constant).getNumElements() <= kMostRead;
}

NodeFacts::NodeFacts(StringRef op, StringRef name, Attributes attributes, ValueRange operands,
                     size_t outputCount)
    : found(findOperator(op)), op(op), name(name), attributes(std::move(attributes)),
      outputCount(outputCount), operands(operands) {
  if (!found)
    throw Error("node '" + this->name + "' has operator '" + this->op +
                "', which pdc does not know");
  for (Value operand : operands) {
    bool absent = isa<NoneType>(operand.getType());
    types.push_back(absent ? std::nullopt : std::optional(toTensorType(operand.getType())));
    bool isRead = isConstant(operand.getDefiningOp()) && reads(operand, values.size());
    values.push_back(isRead ? constantOf(operand) : std::nullopt);
  }
  for (size_t i = 0; i < types.size(); ++i) {
    typePointers.push_back(types[i] ? &*types[i] : nullptr);
    valuePointers.push_back(values[i] ? &*values[i] : nullptr);
  }
}

NodeFacts::NodeFacts(NodeOp node)
    : NodeFacts(node.getOp(), node.getName(), toAttributes(node.getOnnxAttributes()),
                node.getOperands(), node.getNumResults()) {}

NodeView NodeFacts::view() const {
  return {op, name, attributes, typePointers, valuePointers, outputCount};
}

void NodeFacts::checkSize(const TensorType &output) const {
  if (isTooLarge(output))
    throw Error("node '" + name + "' (" + op + "): its result " + output.toString() +
                " has more than " + std::to_string(kMostElementsOfTensor) +
                " elements; give it a smaller --minibatch or more --microbatches");
}

std::vector<TensorType> NodeFacts::infer() const {
  if (!found->infer)
    throw Error("operator '" + op + "' of node '" + name + "' has no shape rule");
  std::vector<TensorType> outputs = found->infer(view());
  if (outputs.size() < outputCount)
    throw Error("node '" + name + "' (" + op + ") has " + std::to_string(outputCount) +
                " outputs, but the operator has " + std::to_string(outputs.size()));
  for (const TensorType &output : outputs)
    checkSize(output);
  return outputs;
}

Cost NodeFacts::cost(TypeRange results) const {
  std::vector<TensorType> outputs;
  for (Type type : results)
    outputs.push_back(toTensorType(type));
  return costOf(*found, view(), outputs);
}

bool NodeFacts::hasOnlyConstants() const {
  for (size_t i = 0; i < types.size(); ++i)
    if (types[i] && !isConstant(operands[i].getDefiningOp()))
      return false;
  return true;
}

std::vector<Tensor> NodeFacts::evaluate() const {
  std::vector<Tensor> known;
  std::vector<const Tensor *> inputs;
  known.reserve(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] && !values[i])
      known.push_back(constantOf(operands[i]).value_or(Tensor{*types[i], {}}));
    inputs.push_back(!types[i] ? nullptr : values[i] ? &*values[i] : &known.back());
  }
  return found->evaluate(view(), inputs);
}

void checkTypes(NodeOp node) {
  std::vector<TensorType> expected = NodeFacts(node).infer();
  for (auto [number, result] : llvm::enumerate(node.getResults()))
    if (!(toTensorType(result.getType()) == expected[number]))
      throw Error("node '" + node.getName().str() + "' (" + node.getOp().str() + ") has result " +
                  std::to_string(number) + " of type " + toTensorType(result.getType()).toString() +
                  ", expected " + expected[number].toString());
}

NodeOp createNode(OpBuilder &builder, Location location, StringRef op, StringRef name,
                  ValueRange operands, const Attributes &attributes, StringRef origin,
                  size_t outputs) {
  MLIRContext *context = builder.getContext();
  std::vector<TensorType> inferred = NodeFacts(op, name, attributes, operands, outputs).infer();
  SmallVector<Type> types;
  for (size_t i = 0; i < outputs; ++i)
    types.push_back(toMlir(context, inferred[i]));
  StringAttr originAttr = origin.empty() ? StringAttr() : builder.getStringAttr(origin);
  return builder.create<NodeOp>(location, types, operands, builder.getStringAttr(op),
                                builder.getStringAttr(name), toMlir(context, attributes),
                                originAttr, ir::PhaseAttr(), ir::RateAttr());
}

NodeOp createConstant(OpBuilder &builder, Location location, StringRef name,
                      DenseElementsAttr value) {
  return builder.create<NodeOp>(location, TypeRange(value.getType()), ValueRange(),
                                builder.getStringAttr("Constant"), builder.getStringAttr(name),
                                builder.getDictionaryAttr(builder.getNamedAttr("value", value)),
                                StringAttr(), ir::PhaseAttr(), ir::RateAttr());
}

std::string gradientName(StringRef weight, size_t use) {
  return (weight + "/gradient").str() + (use > 0 ? "." + std::to_string(use) : "");
}

ir::MemoryOp createMemory(SymbolTable &symbols, OpBuilder &builder, Location location,
                          StringRef name, ir::Role role, ir::Rate rate, Type type,
                          mlir::Attribute initial) {
  MLIRContext *context = builder.getContext();
  if (symbols.lookup(name))
    throw Error("'" + name.str() +
                "': this name is needed for something of pdc's own; rename the tensor");
  NamedAttrList attributes;
  attributes.set("sym_name", builder.getStringAttr(name));
  attributes.set("role", ir::RoleAttr::get(context, role));
  attributes.set("rate", ir::RateAttr::get(context, rate));
  attributes.set("type", TypeAttr::get(type));
  if (initial)
    attributes.set("initial", initial);
  auto memory =
      builder.create<ir::MemoryOp>(location, TypeRange(), ValueRange(), attributes.getAttrs());
  symbols.insert(memory);
  return memory;
}

ir::UnitOp createUnit(OpBuilder &builder, Location location, StringRef name, const UnitPlace &place,
                      TypeRange results, ValueRange operands) {
  MLIRContext *context = builder.getContext();
  NamedAttrList attributes;
  attributes.set("name", builder.getStringAttr(name));
  attributes.set("origin", builder.getStringAttr(place.origin));
  attributes.set("phase", ir::PhaseAttr::get(context, place.phase));
  attributes.set("rate", ir::RateAttr::get(context, place.rate));
  auto unit = builder.create<ir::UnitOp>(location, results, operands, attributes.getAttrs());
  unit.getBody().emplaceBlock();
  return unit;
}

Value createAbsent(OpBuilder &builder, Location location) {
  return builder.create<ir::AbsentOp>(location, builder.getNoneType());
}

NodeNames::NodeNames(Operation *function) {
  function->walk([&](NodeOp node) { taken.insert(node.getName()); });
}

std::string NodeNames::unique(const Twine &name) {
  std::string base = name.str(), candidate = base;
  for (int i = 1; !taken.insert(candidate).second; ++i)
    candidate = base + "." + std::to_string(i);
  return candidate;
}

} // namespace pdc
