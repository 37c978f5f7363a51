#include "compiler/onnx/ShapeWalk.h"

#include "compiler/operators/Random.h"

namespace pdc {

/// Shapes and axes are smaller; what is larger stays unknown.
static constexpr int64_t kMostElements = 4096;

static bool isSmall(const std::vector<TensorType> &types) {
  for (const TensorType &type : types)
    if (type.elementCount() > kMostElements)
      return false;
  return true;
}

ShapeWalk::ShapeWalk(const Model &model, const Binding &binding) : model(model), binding(binding) {
  for (const ModelValue &input : model.inputs)
    if (!model.initializers.contains(input.name))
      inputs[input.name] = &input;
}

void ShapeWalk::add(const ModelNode &node) {
  const Operator *rules = findOperator(node.op);
  if (!rules)
    throw Error("node '" + node.name + "': pdc does not know operator '" + node.op + "'");
  std::vector<const TensorType *> operands;
  std::vector<const Tensor *> known;
  bool allKnown = true;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const std::string &input = node.inputs[i];
    operands.push_back(input.empty() ? nullptr : &typeOf(input));
    known.push_back(constantOf(input));
    if (!known.back() && i < rules->inputs.size() && rules->inputs[i].known)
      known.back() = askedOf(input);
    allKnown = allKnown && (input.empty() || known.back());
  }
  NodeView view{node.op, node.name, node.attributes, operands, known, node.outputs.size()};
  std::vector<TensorType> results = inferTypes(*rules, view);
  for (size_t i = 0; i < results.size() && i < node.outputs.size(); ++i)
    types[node.outputs[i]] = results[i];
  // What is drawn is not known, whatever it is drawn for.
  const bool isOfShape = node.op == "Shape" || node.op == "Size";
  if (isOfShape || (!drawsNumbers(node.op) && allKnown && isSmall(results)))
    evaluate(*rules, node, view, known);
}

const TensorType &ShapeWalk::typeOf(const std::string &name) {
  auto found = types.find(name);
  if (found != types.end())
    return found->second;
  if (auto initializer = model.initializers.find(name); initializer != model.initializers.end())
    return types[name] = addInitializer(initializer->second);
  if (auto input = inputs.find(name); input != inputs.end())
    return types[name] = binding.typeOf(*input->second);
  throw Error("'" + name + "' is made by no node that the loss needs");
}

const Tensor *ShapeWalk::constantOf(const std::string &name) const {
  auto constant = constants.find(name);
  return constant == constants.end() ? nullptr : &constant->second;
}

const Tensor *ShapeWalk::askedOf(const std::string &name) {
  auto initializer = model.initializers.find(name);
  if (initializer == model.initializers.end() || !isSmall({initializer->second.type}))
    return nullptr;
  return &asked.try_emplace(name, readTensor(initializer->second)).first->second;
}

/// tf2onnx counts the steps of a Loop in floating point, and Keras trains no number without
/// dimensions.
const TensorType &ShapeWalk::addInitializer(const Initializer &initializer) {
  const bool isValue = initializer.literal ||
                       (model.producer == "tf2onnx" && initializer.type.shape.empty()) ||
                       !isFloatingPoint(initializer.type.element);
  if (isValue && initializer.type.elementCount() <= kMostElements)
    constants[initializer.name] = readTensor(initializer);
  return initializer.type;
}

void ShapeWalk::evaluate(const Operator &rules, const ModelNode &node, const NodeView &view,
                         const std::vector<const Tensor *> &known) {
  if (!rules.evaluate)
    return;
  std::vector<Tensor> values = rules.evaluate(view, known);
  for (size_t i = 0; i < values.size() && i < node.outputs.size(); ++i)
    constants[node.outputs[i]] = std::move(values[i]);
}

} // namespace pdc
