#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

/// ONNX's optimizers (domain ai.onnx.preview.training) as nodes of a plain graph: by the formulas
/// of the specification, for each tensor that they update. What trains a model is `training_info`,
/// which the importer reads as rules of pdc's own updates.
namespace pdc {

namespace {

/// Inputs are R, T, then `groups` tensors for each weight: weights, gradients, states.
class Update {
public:
  Update(CompositionBuilder &b, size_t groups) : b(b), weights((b.inputCount() - 2) / groups) {
    if (b.inputCount() < 2 + groups || (b.inputCount() - 2) % groups != 0)
      b.refuse("expected R, T, then " + std::to_string(groups) +
               " tensors for each weight, found " + std::to_string(b.inputCount()) + " inputs");
  }

  size_t count() const { return weights; }
  NodeValue tensor(size_t group, size_t weight) const {
    return b.input(2 + group * weights + weight);
  }
  NodeValue rate() const { return b.input(0); }
  /// T, the number of updates before this one, as a number that is computed with.
  NodeValue step() const { return add(b, "Cast", {b.input(1)}, {{"to", int64_t(1)}}); }
  double setting(std::string_view name, double otherwise) const {
    return b.attributes().number(name, otherwise);
  }
  NodeValue number(double value) const { return pdc::number(b, ElementType::f32, value); }
  NodeValue times(NodeValue x, NodeValue y) const { return add(b, "Mul", {x, y}); }
  NodeValue plus(NodeValue x, NodeValue y) const { return add(b, "Add", {x, y}); }
  NodeValue minus(NodeValue x, NodeValue y) const { return add(b, "Sub", {x, y}); }
  NodeValue over(NodeValue x, NodeValue y) const { return add(b, "Div", {x, y}); }
  NodeValue root(NodeValue x) const { return add(b, "Sqrt", {x}); }
  /// From the second update on the first value, before it the other.
  NodeValue later(NodeValue value, NodeValue first) const {
    return add(b, "Where", {add(b, "Greater", {step(), number(0)}), value, first});
  }
  /// The gradient with weight decay.
  NodeValue gradient(size_t weight) const {
    NodeValue decay = times(number(setting("norm_coefficient", 0)), tensor(0, weight));
    return plus(decay, tensor(1, weight));
  }
  /// share * old + (1 - share) * value
  NodeValue averaged(double share, NodeValue old, NodeValue value) const {
    return plus(times(number(share), old), times(number(1 - share), value));
  }

private:
  CompositionBuilder &b;
  size_t weights;
};

/// Outputs are grouped as the inputs are: all next weights, then all next states.
std::vector<NodeValue> grouped(const std::vector<std::vector<NodeValue>> &updated) {
  std::vector<NodeValue> outputs;
  for (size_t group = 0; group < updated.at(0).size(); ++group)
    for (const std::vector<NodeValue> &values : updated)
      outputs.push_back(values[group]);
  return outputs;
}

std::vector<NodeValue> composeMomentum(CompositionBuilder &b) {
  Update u(b, 3);
  const std::string mode = b.attributes().string("mode", "standard");
  if (mode != "standard" && mode != "nesterov")
    b.refuse("mode '" + mode + "', expected standard or nesterov");
  NodeValue alpha = u.number(u.setting("alpha", 0));
  NodeValue beta = u.later(u.number(u.setting("beta", 0)), u.number(1));
  std::vector<std::vector<NodeValue>> updated;
  for (size_t i = 0; i < u.count(); ++i) {
    NodeValue g = u.gradient(i);
    NodeValue v = u.plus(u.times(alpha, u.tensor(2, i)), u.times(beta, g));
    NodeValue by = mode == "nesterov" ? u.plus(g, u.times(alpha, v)) : v;
    updated.push_back({u.minus(u.tensor(0, i), u.times(u.rate(), by)), v});
  }
  return grouped(updated);
}

std::vector<NodeValue> composeAdagrad(CompositionBuilder &b) {
  Update u(b, 3);
  NodeValue decay = u.times(u.step(), u.number(u.setting("decay_factor", 0)));
  NodeValue rate = u.over(u.rate(), u.plus(u.number(1), decay));
  std::vector<std::vector<NodeValue>> updated;
  for (size_t i = 0; i < u.count(); ++i) {
    NodeValue g = u.gradient(i), h = u.plus(u.tensor(2, i), u.times(g, g));
    NodeValue scale = u.plus(u.root(h), u.number(u.setting("epsilon", 1e-6)));
    updated.push_back({u.minus(u.tensor(0, i), u.over(u.times(rate, g), scale)), h});
  }
  return grouped(updated);
}

std::vector<NodeValue> composeAdam(CompositionBuilder &b) {
  Update u(b, 4);
  const double alpha = u.setting("alpha", 0.9), beta = u.setting("beta", 0.999);
  auto left = [&](double share) {
    return u.minus(u.number(1), add(b, "Pow", {u.number(share), u.step()}));
  };
  NodeValue rate = u.later(u.over(u.times(u.rate(), u.root(left(beta))), left(alpha)), u.rate());
  std::vector<std::vector<NodeValue>> updated;
  for (size_t i = 0; i < u.count(); ++i) {
    NodeValue g = u.gradient(i), v = u.averaged(alpha, u.tensor(2, i), g);
    NodeValue h = u.averaged(beta, u.tensor(3, i), u.times(g, g));
    NodeValue scale = u.plus(u.root(h), u.number(u.setting("epsilon", 1e-6)));
    NodeValue x = u.minus(u.tensor(0, i), u.over(u.times(rate, v), scale));
    updated.push_back({u.times(u.number(1 - u.setting("norm_coefficient_post", 0)), x), v, h});
  }
  return grouped(updated);
}

} // namespace

std::span<const ComposedOperator> trainingForms() {
  auto form = [](std::string_view name, Compose compose) {
    return ComposedOperator{{.name = name,
                             .firstOpset = 1,
                             .lastOpset = 1,
                             .inputs = {{"R"}, {"T"}, {"inputs", false, true}},
                             .outputs = {{"outputs", false, true}},
                             .elements = {ElementType::f32}},
                            compose};
  };
  static const ComposedOperator operators[] = {
      form("ai.onnx.preview.training.Adagrad", composeAdagrad),
      form("ai.onnx.preview.training.Adam", composeAdam),
      form("ai.onnx.preview.training.Momentum", composeMomentum)};
  return operators;
}

} // namespace pdc
