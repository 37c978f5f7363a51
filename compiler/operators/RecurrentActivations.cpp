#include "compiler/operators/RecurrentActivations.h"

#include <algorithm>
#include <optional>
#include <span>

namespace pdc {

namespace {

/// What a function that `activations` may name takes of the lists of numbers.
struct KnownActivation {
  std::string_view name;
  int numbers = 0; ///< 1: alpha, 2: beta, too
  std::optional<double> alpha = {}, beta = {};
};

/// ONNX LSTM, opset 7.
constexpr KnownActivation knownActivations[] = {
    {"Affine", 2},
    {"Elu", 1, 1},
    {"HardSigmoid", 2, 0.2, 0.5},
    {"LeakyRelu", 1, 0.01},
    {"Relu"},
    {"ScaledTanh", 2},
    {"Sigmoid"},
    {"Softplus"},
    {"Softsign"},
    {"Tanh"},
    {"ThresholdedRelu", 1, 1},
};

const KnownActivation &findActivation(const CompositionBuilder &b, const std::string &name) {
  const auto *found = std::ranges::find(knownActivations, name, &KnownActivation::name);
  if (found != std::end(knownActivations))
    return *found;
  std::string names;
  for (const KnownActivation &known : knownActivations)
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  b.refuse("activation '" + name + "' is not known, expected one of " + names);
}

/// Names of all directions, in order.
std::vector<std::string> activationNames(const CompositionBuilder &b, size_t count,
                                         size_t perDirection) {
  const Attribute *given = b.attributes().find("activations");
  if (!given) {
    std::vector<std::string> names(count, "Tanh");
    for (size_t i = 0; perDirection > 1 && i < count; i += perDirection)
      names[i] = "Sigmoid";
    return names;
  }
  const auto *names = std::get_if<std::vector<std::string>>(given);
  if (!names || names->size() != count)
    b.refuse("attribute 'activations' has " +
             (names ? std::to_string(names->size()) + " names" : "no names") + ", expected " +
             std::to_string(count));
  return *names;
}

/// The numbers of an attribute, which functions take one after the other.
class Numbers {
public:
  Numbers(const CompositionBuilder &builder, std::string_view attribute)
      : b(builder), attribute(attribute) {
    const Attribute *given = b.attributes().find(attribute);
    const auto *numbers = given ? std::get_if<std::vector<double>>(given) : nullptr;
    if (given && !numbers)
      b.refuse("attribute '" + this->attribute + "' has no numbers");
    if (numbers)
      left = *numbers;
  }

  double next(const KnownActivation &of, const std::optional<double> &otherwise) {
    if (left.empty() && !otherwise)
      b.refuse("attribute '" + this->attribute + "' has no number for activation '" +
               std::string(of.name) + "'");
    if (left.empty())
      return *otherwise;
    const double number = left.front();
    left = left.subspan(1);
    return number;
  }

private:
  const CompositionBuilder &b;
  std::string attribute;
  std::span<const double> left;
};

} // namespace

std::vector<RecurrentActivation> readActivations(const CompositionBuilder &builder, int64_t gates,
                                                 int64_t directions) {
  const size_t perDirection = activationsPerDirection(gates);
  Numbers alphas(builder, "activation_alpha"), betas(builder, "activation_beta");
  std::vector<RecurrentActivation> functions;
  for (const std::string &name :
       activationNames(builder, perDirection * static_cast<size_t>(directions), perDirection)) {
    const KnownActivation &known = findActivation(builder, name);
    RecurrentActivation &function =
        functions.emplace_back(RecurrentActivation{name, known.numbers});
    if (known.numbers >= 1)
      function.alpha = alphas.next(known, known.alpha);
    if (known.numbers == 2)
      function.beta = betas.next(known, known.beta);
  }
  return functions;
}

NodeValue RecurrentActivation::of(CompositionBuilder &b, NodeValue x) const {
  const ElementType element = b.type(x).element;
  auto scaled = [&](double factor, NodeValue value) {
    return add(b, "Mul", {number(b, element, factor), value});
  };
  if (name == "Affine")
    return add(b, "Add", {scaled(alpha, x), number(b, element, beta)});
  if (name == "ScaledTanh")
    return scaled(alpha, add(b, "Tanh", {scaled(beta, x)}));
  Attributes attributes;
  if (numbers >= 1)
    attributes.set("alpha", alpha);
  if (numbers == 2)
    attributes.set("beta", beta);
  return add(b, name, {x}, attributes);
}

} // namespace pdc
