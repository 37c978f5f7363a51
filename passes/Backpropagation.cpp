#include "passes/Backpropagation.h"

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

/// Consumers of a value that lie further apart than so many nodes add up their gradients on their
/// own: more than stand between the two ends of a layer's residual connection.
static constexpr int kApart = 32;

/// How the rule of one forward node sees the graph.
class RuleBuilder : public GradientBuilder {
public:
  RuleBuilder(Backpropagation &pass, NodeOp node, int position, ArrayRef<Value> outputGradients)
      : pass(pass), forward(node), position(position), outputGradients(outputGradients),
        known(toAttributes(node.getOnnxAttributes())) {}

  const Attributes &attributes() const override { return known; }
  size_t inputCount() const override { return forward.getNumOperands(); }
  size_t outputCount() const override { return forward.getNumResults(); }
  GradientValue input(size_t i) const override {
    if (i >= inputCount() || isa<NoneType>(forward.getOperand(i).getType()))
      return {};
    return wrap(forward.getOperand(i));
  }
  GradientValue output(size_t i) const override {
    return i < outputCount() ? wrap(forward.getResult(i)) : GradientValue();
  }
  TensorType type(GradientValue value) const override {
    return toTensorType(unwrap(value).getType());
  }
  GradientValue outputGradient(size_t i) const override {
    return i < outputGradients.size() && outputGradients[i] ? wrap(outputGradients[i])
                                                            : GradientValue();
  }
  bool wants(size_t i) const override {
    return i < inputCount() && pass.isActive(forward.getOperand(i));
  }
  void setInputGradient(size_t i, GradientValue gradient) override;
  std::vector<GradientValue> node(std::string_view op, std::vector<GradientValue> inputs,
                                  Attributes attributes, size_t outputs) override;
  GradientValue constant(Tensor value) override {
    return node("Constant", {}, {{"value", std::move(value)}}, 1).front();
  }

private:
  Backpropagation &pass;
  mutable NodeOp forward; // accessors of operations are not const
  int position;
  ArrayRef<Value> outputGradients;
  Attributes known;
};

void RuleBuilder::setInputGradient(size_t i, GradientValue gradient) {
  if (!wants(i) || !gradient)
    return;
  Value value = forward.getOperand(i);
  if (!(type(gradient) == toTensorType(value.getType())))
    throw Error("the gradient of input " + std::to_string(i) + " of node '" +
                forward.getName().str() + "' has type " + type(gradient).toString() +
                ", expected " + toTensorType(value.getType()).toString());
  pass.addTerm(value, {position, static_cast<int>(i), unwrap(gradient)});
}

std::vector<GradientValue> RuleBuilder::node(std::string_view op, std::vector<GradientValue> inputs,
                                             Attributes attributes, size_t outputs) {
  SmallVector<Value> operands;
  for (GradientValue input : inputs)
    operands.push_back(input ? unwrap(input) : createAbsent(pass.builder, forward.getLoc()));
  std::string name = pass.names.unique(forward.getName() + "/grad/" + llvm::Twine(op));
  NodeOp added = createNode(pass.builder, forward.getLoc(), op, name, operands, attributes,
                            pass.originOf(forward), outputs);
  std::vector<GradientValue> values;
  for (Value result : added.getResults())
    values.push_back(wrap(result));
  return values;
}

void Backpropagation::markActive(NodeOp node) {
  const Operator *rules = findOperator(node.getOp());
  if (!rules)
    throw Error("node '" + node.getName().str() + "' has operator '" + node.getOp().str() +
                "', which pdc does not know");
  checkTypes(node);
  bool reached = llvm::any_of(node.getOperands(), [&](Value v) { return isActive(v); });
  if (!reached || rules->stopsGradient)
    return;
  for (Value result : node.getResults())
    if (isa<FloatType>(cast<RankedTensorType>(result.getType()).getElementType()))
      active.insert(result);
}

void Backpropagation::seed(Value value, Value gradient) {
  terms[value].push_back({static_cast<int>(forward.size()), 0, gradient});
}

void Backpropagation::differentiate(int position) {
  NodeOp node = forward[position];
  auto matters = [&](Value value) { return isActive(value); };
  if (llvm::none_of(node.getResults(), matters) || llvm::none_of(node.getOperands(), matters))
    return;
  SmallVector<Value> gradients;
  for (Value result : node.getResults())
    gradients.push_back(gradientOf(result, node));
  if (llvm::none_of(gradients, [](Value gradient) { return gradient != nullptr; }))
    return;
  const Operator *rules = findOperator(node.getOp());
  if (!rules->differentiate)
    throw Error("node '" + node.getName().str() + "' lies between a " +
                (hasOrigins ? "weight and the loss" : "value and what is differentiated by it") +
                ", but operator '" + node.getOp().str() + "' has no gradient");
  RuleBuilder rule(*this, node, position, gradients);
  rules->differentiate(rule);
}

/// Consumers come in descending order. Those before the term are summed where they lie, so that one
/// sum goes on to the next and, where stages lie between, is sent instead of its terms; these need
/// not wait for the value's producer. The order of additions follows from the graph alone.
void Backpropagation::addTerm(Value value, GradientTerm term) {
  SmallVector<GradientTerm> &found = terms[value];
  auto isOpen = [](const GradientTerm &other) { return !other.isClosed; };
  // Uses of a weight have a sum each.
  if (auto latest = llvm::find_if(found, isOpen);
      value.getDefiningOp<NodeOp>() && latest != found.end() &&
      latest->consumer - term.consumer > kApart)
    closeTerms(value);
  found.push_back(term);
}

void Backpropagation::closeTerms(Value value) {
  SmallVector<GradientTerm> &found = terms[value];
  const int first = found.back().consumer;
  if (found.size() > 1)
    found = {{first, 0, gradientOf(value, forward[first])}};
  found.front().isClosed = true;
}

SmallVector<GradientTerm> Backpropagation::termsOf(Value value) const {
  SmallVector<GradientTerm> found = terms.lookup(value);
  llvm::sort(found);
  return found;
}

/// Whether a node's gradient begins with no loop that would take in the sum of what arrives.
static bool passesOn(NodeOp node) {
  return llvm::is_contained({"Add", "LayerNormalization", "RMSNormalization"}, node.getOp());
}

Value Backpropagation::gradientOf(Value value, NodeOp asks) {
  const SmallVector<GradientTerm> found = termsOf(value);
  if (found.size() < 2)
    return found.empty() ? Value() : found.front().gradient;
  SmallVector<Value> gradients;
  for (const GradientTerm &term : found)
    gradients.push_back(term.gradient);
  const int first = found.front().consumer;
  NodeOp planned =
      passesOn(asks) && first < static_cast<int>(forward.size()) ? forward[first] : asks;
  return createNode(builder, asks.getLoc(), "Sum", names.unique(asks.getName() + "/grad/sum"),
                    gradients, {}, originOf(planned))
      .getResult(0);
}

llvm::StringRef Backpropagation::originOf(NodeOp node) const {
  return hasOrigins ? node.getName() : "";
}

} // namespace pdc
