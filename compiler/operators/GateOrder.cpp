#include "compiler/operators/GateOrder.h"

#include <algorithm>
#include <numeric>

namespace pdc {

namespace {

/// A tensor of gates, and where the operator's stand in it.
struct Gates {
  NodeValue value;
  std::vector<int64_t> places;
};

class GateReader {
public:
  GateReader(const CompositionBuilder &b, int64_t gates, int64_t direction)
      : b(b), gates(gates), direction(direction), hidden(b.type(b.input(2)).shape.back()) {}

  /// Of one direction, without the dimension of directions.
  NodeValue part(size_t input) const {
    NodeValue value = b.input(input);
    const auto directions = static_cast<size_t>(b.type(value).shape[0]);
    if (directions > 1) {
      const std::optional<ValueMaker> joined = concat(value);
      if (!joined || joined->inputs.size() != directions)
        return {};
      value = joined->inputs[static_cast<size_t>(direction)];
    }
    return value ? behindViews(value) : value;
  }

  /// What a Concat of slices brings into the operator's order.
  std::optional<Gates> read(NodeValue value) const {
    const std::optional<ValueMaker> joined = value ? concat(value) : std::nullopt;
    if (!joined)
      return std::nullopt;
    Gates found;
    for (NodeValue operand : joined->inputs) {
      const std::optional<ValueMaker> slice = operand ? b.maker(operand) : std::nullopt;
      const std::optional<int64_t> first = slice ? firstOf(*slice) : std::nullopt;
      const int64_t length = operand ? b.type(operand).shape[0] : 0;
      if (!first || *first % hidden != 0 || length % hidden != 0 ||
          (found.value && found.value != slice->inputs[0]))
        return std::nullopt;
      found.value = slice->inputs[0];
      for (int64_t gate = 0; gate < length / hidden; ++gate)
        found.places.push_back(*first / hidden + gate);
    }
    std::vector<int64_t> all(static_cast<size_t>(gates));
    std::iota(all.begin(), all.end(), 0);
    const bool isWhole = std::ranges::is_permutation(found.places, all) &&
                         b.type(found.value).shape == b.type(value).shape;
    return isWhole ? std::optional(found) : std::nullopt;
  }

  /// The biases of inputs and states, one behind the other.
  std::optional<std::pair<Gates, Gates>> readBiases() const {
    const NodeValue both = part(3);
    const std::optional<ValueMaker> joined = both ? concat(both) : std::nullopt;
    if (!joined || joined->inputs.size() != 2)
      return std::nullopt;
    std::optional<Gates> first = read(joined->inputs[0]), second = read(joined->inputs[1]);
    return first && second ? std::optional(std::pair(*first, *second)) : std::nullopt;
  }

private:
  /// Along the first dimension.
  std::optional<ValueMaker> concat(NodeValue value) const {
    std::optional<ValueMaker> made = b.maker(value);
    const bool isConcat = made && made->op == "Concat" && made->attributes.integer("axis", 0) == 0;
    return isConcat ? made : std::nullopt;
  }

  std::vector<int64_t> shapeBehindOnes(NodeValue value) const {
    std::vector<int64_t> shape = b.type(value).shape;
    while (!shape.empty() && shape[0] == 1)
      shape.erase(shape.begin());
    return shape;
  }

  /// Without leading dimensions of 1.
  NodeValue behindViews(NodeValue value) const {
    while (b.type(value).shape.size() > 1 && b.type(value).shape[0] == 1) {
      const std::optional<ValueMaker> made = b.maker(value);
      const bool isView = made && (made->op == "Reshape" || made->op == "Unsqueeze");
      if (!isView || shapeBehindOnes(made->inputs[0]) != shapeBehindOnes(value))
        return {};
      value = made->inputs[0];
    }
    return value;
  }

  /// Where a slice along the first dimension begins.
  std::optional<int64_t> firstOf(const ValueMaker &slice) const {
    auto numbers = [&](size_t input) {
      const bool isThere = input < slice.inputs.size() && slice.inputs[input];
      const Tensor *known = isThere ? b.known(slice.inputs[input]) : nullptr;
      return known ? known->data : std::vector<double>();
    };
    constexpr size_t kFirst = 1, kAxes = 3, kSteps = 4;
    const bool hasSteps = slice.inputs.size() > kSteps && slice.inputs[kSteps];
    if (slice.op != "Slice" || numbers(kFirst).size() != 1 || numbers(kAxes) != std::vector{0.0} ||
        (hasSteps && numbers(kSteps) != std::vector{1.0}))
      return std::nullopt;
    const auto first = static_cast<int64_t>(numbers(kFirst)[0]);
    return first >= 0 ? std::optional(first) : std::nullopt;
  }

  const CompositionBuilder &b;
  const int64_t gates, direction, hidden;
};

} // namespace

std::optional<OrderedGates> findOrderedGates(const CompositionBuilder &b, int64_t gates,
                                             int64_t direction) {
  const GateReader reader(b, gates, direction);
  const std::optional<Gates> ofInput = reader.read(reader.part(1)),
                             ofState = reader.read(reader.part(2));
  if (!ofInput || !ofState || ofInput->places != ofState->places)
    return std::nullopt;
  OrderedGates found{ofInput->value, ofState->value, {}, {}, ofInput->places};
  if (!b.input(3))
    return found;
  const auto biases = reader.readBiases();
  if (!biases || biases->first.places != found.places || biases->second.places != found.places)
    return std::nullopt;
  found.inputBias = biases->first.value, found.stateBias = biases->second.value;
  return found;
}

} // namespace pdc
