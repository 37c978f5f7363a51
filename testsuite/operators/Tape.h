#pragma once

#include "compiler/operators/Composition.h"
#include "testsuite/operators/GradientCheck.h"

/// Composed operators, computed and differentiated through what they are made of.
namespace pdc::test {

/// An input that is left out.
inline const Tensor kAbsent = {{ElementType::f64, {0}}, {}};

inline Tensor flags(std::vector<int64_t> shape, std::vector<double> values) {
  return {{ElementType::boolean, std::move(shape)}, std::move(values)};
}

/// Nodes in the order in which a composition adds them, computed in double as they come.
class Tape {
public:
  struct Node {
    std::string op;
    Attributes attributes;
    std::vector<const Tensor *> inputs, outputs;
  };

  NodeValue hold(Tensor value) {
    values.push_back(std::move(value));
    return {&values.back()};
  }
  static const Tensor *tensor(NodeValue value) { return static_cast<const Tensor *>(value.handle); }

  std::vector<NodeValue> add(std::string_view op, const std::vector<NodeValue> &inputs,
                             const Attributes &attributes, size_t outputs);

  std::vector<Node> nodes;

private:
  std::deque<Tensor> values;
};

/// A composed node on the tape.
class TapeComposition : public CompositionBuilder {
public:
  TapeComposition(Tape &tape, std::string_view op, const Attributes &known,
                  std::vector<NodeValue> inputs)
      : tape(tape), op(op), known_(known), inputs(std::move(inputs)) {}

  const Attributes &attributes() const override { return known_; }
  size_t inputCount() const override { return inputs.size(); }
  NodeValue input(size_t i) const override { return i < inputs.size() ? inputs[i] : NodeValue(); }
  TensorType type(NodeValue value) const override { return Tape::tensor(value)->type; }
  /// Shapes, axes and indices are known; numbers are not.
  const Tensor *known(NodeValue value) const override {
    const Tensor *tensor = Tape::tensor(value);
    return isFloatingPoint(tensor->type.element) ? nullptr : tensor;
  }
  std::string describe() const override { return op; }
  NodeValue constant(Tensor value) override { return tape.hold(std::move(value)); }
  std::vector<NodeValue> node(std::string_view added, std::vector<NodeValue> operands,
                              Attributes attributes, size_t count) override {
    return tape.add(added, operands, attributes, count);
  }

private:
  Tape &tape;
  std::string op;
  const Attributes &known_;
  std::vector<NodeValue> inputs;
};

inline std::vector<NodeValue> Tape::add(std::string_view op, const std::vector<NodeValue> &inputs,
                                        const Attributes &attributes, size_t outputs) {
  const Operator *rule = findOperator(op);
  if (!rule)
    throw Error("no operator " + std::string(op));
  if (Compose compose = findComposition(op)) {
    TapeComposition composition(*this, op, attributes, inputs);
    if (std::vector<NodeValue> composed = compose(composition); !composed.empty())
      return composed;
  }
  Node node{std::string(op), attributes, {}, {}};
  for (NodeValue input : inputs)
    node.inputs.push_back(tensor(input));
  std::vector<NodeValue> results;
  for (Tensor &result : run(op, attributes, node.inputs, std::max(outputs, rule->outputs.size()))) {
    results.push_back(hold(std::move(result)));
    node.outputs.push_back(tensor(results.back()));
  }
  nodes.push_back(std::move(node));
  return results;
}

/// The gradient rule of one node of a tape.
class TapeRule : public GradientBuilder {
public:
  using Gradients = std::map<const Tensor *, Tensor>;

  TapeRule(const Tape::Node &node, Gradients &gradients, const std::set<const Tensor *> &active)
      : forward(node), gradients(gradients), active(active) {}

  const Attributes &attributes() const override { return forward.attributes; }
  size_t inputCount() const override { return forward.inputs.size(); }
  size_t outputCount() const override { return forward.outputs.size(); }
  NodeValue input(size_t i) const override {
    return i < inputCount() ? wrap(forward.inputs[i]) : NodeValue();
  }
  GradientValue output(size_t i) const override {
    return i < outputCount() ? wrap(forward.outputs[i]) : NodeValue();
  }
  TensorType type(NodeValue value) const override { return Tape::tensor(value)->type; }
  GradientValue outputGradient(size_t i) const override {
    auto found = gradients.find(forward.outputs.at(i));
    return found == gradients.end() ? NodeValue() : wrap(&found->second);
  }
  bool wants(size_t i) const override { return active.contains(forward.inputs.at(i)); }
  void setInputGradient(size_t i, GradientValue gradient) override {
    const Tensor &term = *Tape::tensor(gradient);
    auto [sum, isNew] = gradients.try_emplace(forward.inputs.at(i), term);
    for (size_t e = 0; !isNew && e < term.data.size(); ++e)
      sum->second.data[e] += term.data[e];
  }
  std::vector<NodeValue> node(std::string_view op, std::vector<NodeValue> inputs,
                              Attributes attributes, size_t outputs) override {
    return backward.add(op, inputs, attributes, outputs);
  }
  NodeValue constant(Tensor value) override { return backward.hold(std::move(value)); }

private:
  static NodeValue wrap(const Tensor *value) { return {const_cast<Tensor *>(value)}; }

  const Tape::Node &forward;
  Gradients &gradients;
  const std::set<const Tensor *> &active;
  Tape backward;
};

/// The gradients of sum(seed * output 0) by the wanted inputs.
inline std::vector<Tensor> tapeGradients(const Case &test, const Tensor &seed) {
  Tape tape;
  std::vector<NodeValue> inputs;
  std::set<const Tensor *> active;
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    // An absent input has no shape and no element.
    bool isAbsent = test.inputs[i].data.empty();
    inputs.push_back(isAbsent ? NodeValue() : tape.hold(test.inputs[i]));
    if (std::find(test.wanted.begin(), test.wanted.end(), i) != test.wanted.end())
      active.insert(Tape::tensor(inputs.back()));
  }
  NodeValue output = tape.add(test.op, inputs, test.attributes, test.outputs)[0];
  for (const Tape::Node &node : tape.nodes)
    for (const Tensor *input : node.inputs)
      if (input && active.contains(input) && !findOperator(node.op)->stopsGradient)
        active.insert(node.outputs.begin(), node.outputs.end());
  TapeRule::Gradients gradients = {{Tape::tensor(output), seed}};
  for (auto node = tape.nodes.rbegin(); node != tape.nodes.rend(); ++node) {
    bool arrives = std::any_of(node->outputs.begin(), node->outputs.end(),
                               [&](const Tensor *value) { return gradients.contains(value); });
    const Operator *rule = findOperator(node->op);
    if (!arrives || rule->stopsGradient)
      continue;
    if (!rule->differentiate)
      throw Error(node->op + " has no gradient");
    TapeRule builder(*node, gradients, active);
    rule->differentiate(builder);
  }
  std::vector<Tensor> results;
  for (size_t i : test.wanted)
    results.push_back(gradients.at(Tape::tensor(inputs[i])));
  return results;
}

inline std::vector<Tensor> tapeValues(const Case &test) {
  Tape tape;
  std::vector<NodeValue> inputs;
  for (const Tensor &input : test.inputs)
    inputs.push_back(input.data.empty() ? NodeValue() : tape.hold(input));
  std::vector<Tensor> values;
  for (NodeValue output : tape.add(test.op, inputs, test.attributes, test.outputs))
    values.push_back(*Tape::tensor(output));
  return values;
}

inline Tensor tapeValue(const Case &test) { return tapeValues(test)[0]; }

/// Compares with central differences of the composition itself.
inline void checkComposedGradient(Case test, double tolerance = 2e-6) {
  SCOPED_TRACE(test.op);
  checkedCompositions().insert(test.op);
  Draw draw(7);
  Tensor seed = draw.reals(tapeValue(test).type.shape);
  std::vector<Tensor> found = tapeGradients(test, seed);
  for (size_t w = 0; w < test.wanted.size(); ++w)
    for (size_t e = 0; e < found[w].data.size(); ++e) {
      const double step = 1e-5;
      double &element = test.inputs[test.wanted[w]].data[e], before = element;
      element = before + step;
      double above = weighted(tapeValue(test), seed);
      element = before - step;
      double below = weighted(tapeValue(test), seed);
      element = before;
      double expected = (above - below) / (2 * step);
      ASSERT_NEAR(found[w].data[e], expected, tolerance * std::max(1.0, std::abs(expected)))
          << "input " << test.wanted[w] << " element " << e;
    }
}

} // namespace pdc::test
