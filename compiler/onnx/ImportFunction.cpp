#include "compiler/onnx/ImportFunction.h"

#include "compiler/ir/Conversion.h"
#include "compiler/onnx/Import.h"
#include "compiler/onnx/Makers.h"
#include "compiler/onnx/Normalisations.h"
#include "compiler/operators/Random.h"

#include <numeric>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

static Location locationOf(MLIRContext *context, const std::string &name) {
  return NameLoc::get(StringAttr::get(context, name));
}

/// Names a node's random numbers: FNV-1a of its name, so that they do not depend on its place.
static int64_t keyOf(const std::string &name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : name)
    hash = (hash ^ c) * 0x100000001b3;
  return static_cast<int64_t>(hash);
}

bool isAskedFor(const ModelNode &node, size_t operand) {
  const Operator *rules = findOperator(node.op);
  const bool isListed = rules && operand < rules->inputs.size();
  return (node.op == "Dropout" && operand > 0) || (isListed && rules->inputs[operand].known);
}

FunctionImporter::FunctionImporter(func::FuncOp function, const Model &model, const Loss &loss,
                                   Entry entry, const std::set<std::string> &frozen)
    : function(function), model(model), loss(loss), entry(entry), frozen(frozen),
      builder(function.getBody().front().getTerminator()),
      memories(function->getParentOfType<ModuleOp>()) {
  for (const ModelNode &node : model.nodes)
    names.insert(node.name);
}

void FunctionImporter::run() {
  for (const ModelNode *node : nodesOfLoss(model, loss))
    importNode(*node);
  loss.kind == LossKind::none ? writeOutputs() : addLoss();
}

void FunctionImporter::importNode(const ModelNode &node) {
  if (node.op == "BatchNormalization")
    return importBatchNormalization(node);
  if (node.op == "Dropout")
    return importDropout(node);
  if (alwaysDraws(node.op))
    return importRandom(node);
  importGeneric(node, node.attributes, node.outputs.size());
}

void FunctionImporter::importGeneric(const ModelNode &node, Attributes attributes, size_t results) {
  std::vector<Value> operands;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    operands.push_back(operandOf(node, i));
  ValueRange outputs =
      create({node.op, node.name, std::move(operands), std::move(attributes), results, {}});
  for (size_t i = 0; i < results; ++i)
    values[node.outputs[i]] = outputs[i];
}

bool FunctionImporter::isRead(const std::string &value) const {
  auto reads = [&](const ModelNode &reader) {
    return std::ranges::count(reader.inputs, value) > 0;
  };
  return valueNamed(model.outputs, value) || std::ranges::any_of(model.nodes, reads);
}

/// Training uses the batch's statistics and keeps the running ones, unless the node is frozen or
/// has its statistics given.
void FunctionImporter::importBatchNormalization(const ModelNode &node) {
  Attributes attributes = {{"epsilon", node.attributes.number("epsilon", 1e-5)},
                           {"momentum", node.attributes.number("momentum", 0.9)}};
  const bool trains = (entry == Entry::train && !frozen.contains(node.name)) ||
                      (entry == Entry::forward && node.attributes.integer("training_mode", 0));
  std::vector<Value> operands;
  for (const std::string &input : node.inputs)
    operands.push_back(valueOf(input, node.name));
  constexpr size_t statistics[] = {3, 4};
  auto isComputed = [&](size_t i) {
    return !model.initializers.contains(node.inputs[i]) &&
           !valueNamed(model.inputs, node.inputs[i]);
  };
  if (!trains) {
    attributes.set("training_mode", int64_t(0));
    for (size_t i : statistics)
      if (entry == Entry::train && isComputed(i) && areGivenDetached(model))
        operands[i] = create({"pdc.StopGradient",
                              names.fresh(node.inputs[i] + "/stopped"),
                              {operands[i]},
                              {},
                              1,
                              {}})[0];
    values[node.outputs[0]] = create({node.op, node.name, operands, attributes, 1, {}})[0];
    return;
  }
  // Of running statistics that nobody reads it is all one what they were.
  for (size_t i : statistics)
    if (const size_t output = i - 2;
        isComputed(i) && !(output < node.outputs.size() && isRead(node.outputs[output])))
      operands[i] = operands[1];
  ValueRange outputs = create({"BatchNormInternal", node.name, operands, attributes, 5, {}});
  for (size_t i = 0; i < node.outputs.size(); ++i)
    values[node.outputs[i]] = outputs[i];
  for (size_t i : statistics)
    if (model.initializers.contains(node.inputs[i]))
      write(outputs[i - 2], node.inputs[i]);
}

/// A write is never a copy: an output that is an input under another shape is copied first.
void FunctionImporter::writeOutputs() {
  for (const ModelValue &output : model.outputs) {
    auto memory = memories.lookup<MemoryOp>(forwardOutput(output.name));
    std::vector<int64_t> order(cast<RankedTensorType>(memory.getType()).getRank());
    std::iota(order.begin(), order.end(), 0);
    Value copy = create({"Transpose", names.fresh("copy_of_" + output.name), {valueOf(output.name, "output")}, {{"perm", order}}, 1, {}})[0];
    write(copy, memory.getSymName().str());
  }
}

/// The identity in evaluation, and where the file says that it does not train.
void FunctionImporter::importDropout(const ModelNode &node) {
  double ratio = known(node, 1, 0.5);
  Value x = valueOf(node.inputs.at(0), node.name);
  if (entry == Entry::evaluate || ratio == 0 || known(node, 2, 0) == 0) {
    values[node.outputs.at(0)] = x;
    return;
  }
  refuseForward(node);
  Attributes attributes = {{"ratio", ratio}, {"key", keyOf(node.name)}};
  values[node.outputs.at(0)] =
      create({"Dropout", node.name, {x, readMemory("pdc.random")}, attributes, 1, {}})[0];
}

void FunctionImporter::refuseForward(const ModelNode &node) {
  if (entry == Entry::forward)
    throw Error("node '" + node.name + "' (" + node.op +
                "): draws random numbers, which are those of training");
}

/// The random numbers become its last operand. Evaluation draws, too: the file says nothing else.
void FunctionImporter::importRandom(const ModelNode &node) {
  refuseForward(node);
  std::vector<Value> operands;
  for (const std::string &input : node.inputs)
    operands.push_back(valueOf(input, node.name));
  operands.push_back(readMemory("pdc.random"));
  Attributes attributes = node.attributes;
  attributes.set("key", keyOf(node.name));
  values[node.outputs.at(0)] = create({node.op, node.name, operands, attributes, 1, {}})[0];
}

double FunctionImporter::known(const ModelNode &node, size_t operand, double otherwise) {
  if (operand >= node.inputs.size() || node.inputs[operand].empty())
    return otherwise;
  auto initializer = model.initializers.find(node.inputs[operand]);
  if (initializer == model.initializers.end() || initializer->second.type.elementCount() != 1)
    throw Error("node '" + node.name + "' (" + node.op + "): input " + std::to_string(operand) +
                " '" + node.inputs[operand] + "' must be one number that the file holds");
  return readTensor(initializer->second).data.at(0);
}

/// Others may read a number as it lies in memory that this node asks for at compile time.
Value FunctionImporter::operandOf(const ModelNode &node, size_t operand) {
  const std::string &name = node.inputs[operand];
  if (name.empty())
    return absent();
  auto memory = memories.lookup<MemoryOp>(name);
  auto initializer = model.initializers.find(name);
  const bool isConstant =
      memory && memory.getRole() == Role::Constant && initializer != model.initializers.end();
  return isConstant && isAskedFor(node, operand) ? constantOf(initializer->second)
                                                 : valueOf(name, node.name);
}

Value FunctionImporter::valueOf(const std::string &name, const std::string &reader) {
  auto value = values.find(name);
  if (value != values.end())
    return value->second;
  auto initializer = model.initializers.find(name);
  if (initializer != model.initializers.end())
    return valueOfInitializer(initializer->second);
  if (!memories.lookup<MemoryOp>(name))
    throw Error("node '" + reader + "': its input '" + name +
                "' is an output that pdc does not make" +
                (entry == Entry::evaluate ? " in evaluation" : ""));
  return values[name] = readMemory(name);
}

/// Running statistics are read anew by each node: one before it may have written them.
Value FunctionImporter::valueOfInitializer(const Initializer &initializer) {
  auto memory = memories.lookup<MemoryOp>(initializer.name);
  if (memory && memory.getRole() == Role::State)
    return readMemory(initializer.name);
  if (memory)
    return values[initializer.name] = readMemory(initializer.name);
  return values[initializer.name] = constantOf(initializer);
}

Value FunctionImporter::constantOf(const Initializer &initializer) {
  Attributes value = {{"value", readTensor(initializer)}};
  return create({"Constant", names.fresh(initializer.name), {}, value, 1, initializer.type})[0];
}

Value FunctionImporter::readMemory(const std::string &name) {
  auto memory = memories.lookup<MemoryOp>(name);
  Location location = locationOf(builder.getContext(), name);
  if (memory.getRole() == Role::Weight)
    return builder.create<WeightVersionOp>(location, memory.getTensorType(), name, Version::Latest);
  return builder.create<ReadOp>(location, memory.getTensorType(), name);
}

Value FunctionImporter::absent() {
  return builder.create<AbsentOp>(function.getLoc(), builder.getNoneType());
}

ValueRange FunctionImporter::create(const NewNode &node) {
  MLIRContext *context = builder.getContext();
  Type type = UnrankedTensorType::get(builder.getF32Type());
  if (node.type)
    type = toMlir(context, *node.type);
  auto op = builder.create<NodeOp>(
      locationOf(context, node.name), SmallVector<Type>(node.results, type), node.operands, node.op,
      node.name, toMlir(context, node.attributes), StringAttr(), PhaseAttr(), RateAttr());
  return op.getResults();
}

void FunctionImporter::write(Value value, const std::string &memory) {
  builder.create<WriteOp>(locationOf(builder.getContext(), memory), value, memory);
}

} // namespace pdc
