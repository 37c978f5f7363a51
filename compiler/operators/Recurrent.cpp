#include "compiler/operators/GateOrder.h"
#include "compiler/operators/RecurrentActivations.h"
#include "compiler/operators/RecurrentForm.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <numeric>
#include <optional>

/// LSTM, GRU and RNN over sequences of known length, written out step by step: the products with
/// the inputs are one matrix product for all steps, those with the state one each. What follows
/// them in a step is one node where its functions are the usual ones.
namespace pdc {

namespace {

/// One direction of a recurrent operator.
class Direction {
public:
  Direction(CompositionBuilder &b, NodeValue x, int64_t gates, int64_t number)
      : b(b), gates(gates), number(number), hidden(b.type(b.input(2)).shape.back()) {
    std::vector<int64_t> shape = b.type(x).shape;
    steps = shape[0];
    batch = shape[1];
    sequence = reshaped(b, x, {steps * batch, shape[2]});
    std::string directions = b.attributes().string("direction", "forward");
    isReverse = directions == "reverse" || number == 1;
    const std::vector<RecurrentActivation> all =
        readActivations(b, gates, directions == "bidirectional" ? 2 : 1);
    const auto count = static_cast<int64_t>(activationsPerDirection(gates));
    activations.assign(all.begin() + number * count, all.begin() + (number + 1) * count);
    for (int64_t i = 0; hasLengths(b, steps) && i < steps; ++i)
      isWithin.push_back(within(isReverse ? steps - 1 - i : i));
  }

  /// Whether sequences may end before the last step.
  static bool hasLengths(CompositionBuilder &b, int64_t steps) {
    const Tensor *lengths = b.input(4) ? b.known(b.input(4)) : nullptr;
    return b.input(4) && !(lengths && std::ranges::all_of(lengths->data, [&](double length) {
                             return length == static_cast<double>(steps);
                           }));
  }

  /// A state after the i-th step that is taken: behind a sequence's end it stays what it was.
  NodeValue kept(size_t i, NodeValue next, NodeValue before) {
    return isWithin.empty() ? next : add(b, "Where", {isWithin[i], next, before});
  }
  /// What is handed out of it: zeros behind the end.
  NodeValue shown(size_t i, NodeValue state) {
    return kept(i, state, pdc::number(b, b.type(sequence).element, 0));
  }

  /// This direction's part of an input, without the dimension of directions.
  NodeValue part(size_t input) {
    TensorType type = b.type(b.input(input));
    NodeValue value = b.input(input);
    if (type.shape[0] > 1)
      value = slice(value, 0, number, number + 1);
    return reshaped(b, value, {type.shape.begin() + 1, type.shape.end()});
  }
  NodeValue slice(NodeValue value, int64_t axis, int64_t from, int64_t to) {
    auto vector = [&](int64_t element) { return b.constant(Tensor::vector({element})); };
    return add(b, "Slice", {value, vector(from), vector(to), vector(axis)});
  }
  NodeValue zeros(const std::vector<int64_t> &shape) {
    return b.constant(Tensor::zeros({b.type(sequence).element, shape}));
  }
  /// `initial_h` and the like, or zeros.
  NodeValue initial(size_t input) {
    const bool batchFirst = b.attributes().integer("layout", 0) != 0;
    if (!b.input(input))
      return zeros({batch, hidden});
    return batchFirst ? reshaped(b, slice(b.input(input), 1, number, number + 1), {batch, hidden})
                      : part(input);
  }
  /// x W^T + bias for all steps, cut into steps: each [batch, gates * hidden].
  std::vector<NodeValue> inputProducts(NodeValue weights, NodeValue bias) {
    std::vector<NodeValue> operands = {sequence, weights};
    if (bias)
      operands.push_back(bias);
    NodeValue all = add(b, "Gemm", operands, {{"transB", int64_t(1)}});
    std::vector<NodeValue> cut = {all};
    if (steps > 1) {
      NodeValue sizes = b.constant(Tensor::vector(std::vector<int64_t>(size_t(steps), batch)));
      cut = b.node("Split", {all, sizes}, {{"axis", int64_t(0)}}, size_t(steps));
    }
    if (isReverse)
      std::reverse(cut.begin(), cut.end());
    return cut;
  }
  std::vector<NodeValue> gatesOf(NodeValue value, int64_t count) {
    NodeValue sizes = b.constant(Tensor::vector(std::vector<int64_t>(size_t(count), hidden)));
    return count == 1 ? std::vector<NodeValue>{value}
                      : b.node("Split", {value, sizes}, {{"axis", int64_t(1)}}, size_t(count));
  }
  /// h R^T + addend
  NodeValue product(NodeValue h, NodeValue recurrence, NodeValue addend) {
    return add(b, "Gemm", {h, recurrence, addend}, {{"transB", int64_t(1)}});
  }
  /// Whether LstmCell or GruCell computes what follows the products of a step.
  bool hasUsualCell() const {
    auto isUsual = [&](size_t which) {
      return activations[which].name == (which == 0 ? "Sigmoid" : "Tanh");
    };
    return b.type(sequence).element == ElementType::f32 && isUsual(0) && isUsual(1) &&
           (gates < 4 || isUsual(2)) && !b.attributes().has("clip") && !couplesGates();
  }
  /// Whether an LSTM forgets as much as it takes in.
  bool couplesGates() const { return b.attributes().integer("input_forget", 0) != 0; }
  /// The weights and biases, of cells with the gates as their exporter had them.
  OrderedGates weights(bool isCell) {
    if (std::optional<OrderedGates> found =
            isCell ? findOrderedGates(b, gates, number) : std::nullopt)
      return *found;
    OrderedGates own{part(1), part(2), {}, {}, {}};
    if (!b.input(3))
      return own;
    NodeValue both = part(3);
    own.inputBias = slice(both, 0, 0, gates * hidden);
    own.stateBias = slice(both, 0, gates * hidden, 2 * gates * hidden);
    return own;
  }
  /// Of what a threshold bounds, if the node has one.
  NodeValue activate(size_t which, NodeValue value) {
    if (b.attributes().has("clip")) {
      const double bound = b.attributes().number("clip", 0);
      const ElementType element = b.type(value).element;
      value =
          add(b, "Clip", {value, pdc::number(b, element, -bound), pdc::number(b, element, bound)});
    }
    return activations[which].of(b, value);
  }

  CompositionBuilder &b;
  int64_t gates, number, hidden, steps, batch;
  bool isReverse;
  NodeValue sequence;
  std::vector<RecurrentActivation> activations;

private:
  /// Of the sequences: bool[batch, 1].
  NodeValue within(int64_t step) {
    NodeValue lengths = b.input(4);
    if (b.type(lengths).element != ElementType::i64)
      lengths = add(b, "Cast", {lengths}, {{"to", onnxType(ElementType::i64)}});
    NodeValue isLonger =
        add(b, "Less", {pdc::number(b, ElementType::i64, static_cast<double>(step)), lengths});
    return reshaped(b, isLonger, {batch, 1});
  }

  std::vector<NodeValue> isWithin; ///< in the order of the steps; empty where none ends early
};

/// What one direction computes: the state after each step in the order of the input, and the last.
struct States {
  std::vector<NodeValue> all;
  NodeValue last, lastCell;
};

NodeValue combined(CompositionBuilder &b, std::string_view op, NodeValue x, NodeValue y) {
  return add(b, op, {x, y});
}

void inInputOrder(Direction &d, States &states) {
  if (d.isReverse)
    std::reverse(states.all.begin(), states.all.end());
}

/// The state after a step and, of an LSTM, its cell.
struct Step {
  NodeValue state, cell;
};

/// Gates i, o, f and the candidate c, in ONNX's order, with peepholes where there are any.
Step lstmStep(Direction &d, NodeValue product, NodeValue cell,
              const std::vector<NodeValue> &peepholes) {
  CompositionBuilder &b = d.b;
  auto peeked = [&](NodeValue gate, size_t which, NodeValue seen) {
    return peepholes.empty() ? gate
                             : combined(b, "Add", gate, combined(b, "Mul", seen, peepholes[which]));
  };
  const std::vector<NodeValue> gates = d.gatesOf(product, 4);
  NodeValue in = d.activate(0, peeked(gates[0], 0, cell));
  NodeValue forget = d.couplesGates() ? combined(b, "Sub", number(b, b.type(in).element, 1), in)
                                      : d.activate(0, peeked(gates[2], 2, cell));
  NodeValue candidate = d.activate(1, gates[3]);
  NodeValue next =
      combined(b, "Add", combined(b, "Mul", forget, cell), combined(b, "Mul", in, candidate));
  NodeValue out = d.activate(0, peeked(gates[1], 1, next));
  return {combined(b, "Mul", out, d.activate(2, next)), next};
}

Attributes placesOf(const OrderedGates &own) {
  return own.places.empty() ? Attributes() : Attributes({{"gates", own.places}});
}

Step lstmCell(CompositionBuilder &b, NodeValue product, NodeValue cell, const OrderedGates &own) {
  const std::vector<NodeValue> results = b.node("LstmCell", {product, cell}, placesOf(own), 2);
  return {results[0], results[1]};
}

/// Null where there is none.
NodeValue summedBias(CompositionBuilder &b, const OrderedGates &own) {
  return own.inputBias ? combined(b, "Add", own.inputBias, own.stateBias) : NodeValue();
}

States runLstm(Direction &d) {
  CompositionBuilder &b = d.b;
  const bool isCell = !b.input(7) && d.hasUsualCell();
  const OrderedGates own = d.weights(isCell);
  NodeValue state = d.initial(5), cell = d.initial(6);
  std::vector<NodeValue> peepholes;
  if (b.input(7))
    for (int64_t i = 0; i < 3; ++i)
      peepholes.push_back(d.slice(d.part(7), 0, i * d.hidden, (i + 1) * d.hidden));
  States states;
  for (NodeValue ofInput : d.inputProducts(own.inputWeights, summedBias(b, own))) {
    NodeValue product = d.product(state, own.stateWeights, ofInput);
    const Step next =
        isCell ? lstmCell(b, product, cell, own) : lstmStep(d, product, cell, peepholes);
    const size_t step = states.all.size();
    state = d.kept(step, next.state, state);
    cell = d.kept(step, next.cell, cell);
    states.all.push_back(d.shown(step, state));
  }
  states.last = state;
  states.lastCell = cell;
  inInputOrder(d, states);
  return states;
}

/// The matrix and bias by which a GRU's state is multiplied: of the gates z and r, and of the
/// candidate.
struct GruRecurrence {
  NodeValue ofGates, gateBias, ofCandidate, candidateBias;

  GruRecurrence(Direction &d, NodeValue all, NodeValue bias) {
    const int64_t h = d.hidden;
    ofGates = d.slice(all, 0, 0, 2 * h), ofCandidate = d.slice(all, 0, 2 * h, 3 * h);
    gateBias = d.slice(bias, 0, 0, 2 * h), candidateBias = d.slice(bias, 0, 2 * h, 3 * h);
  }
};

/// Gates z, r and the candidate h, each with a product of its own. The reset acts before the
/// candidate's, or after it where `linear_before_reset` says so.
NodeValue gruStep(Direction &d, NodeValue product, NodeValue state, const GruRecurrence &by,
                  bool resetsAfter) {
  CompositionBuilder &b = d.b;
  const int64_t h = d.hidden;
  NodeValue both = d.slice(product, 1, 0, 2 * h), own = d.slice(product, 1, 2 * h, 3 * h);
  const std::vector<NodeValue> gates =
      d.gatesOf(combined(b, "Add", both, d.product(state, by.ofGates, by.gateBias)), 2);
  NodeValue update = d.activate(0, gates[0]), reset = d.activate(0, gates[1]);
  NodeValue before =
      resetsAfter ? combined(b, "Mul", reset, d.product(state, by.ofCandidate, by.candidateBias))
                  : d.product(combined(b, "Mul", reset, state), by.ofCandidate, by.candidateBias);
  NodeValue candidate = d.activate(1, combined(b, "Add", own, before));
  // (1 - z) c + z h
  NodeValue change = combined(b, "Sub", state, candidate);
  return combined(b, "Add", candidate, combined(b, "Mul", update, change));
}

States runGru(Direction &d) {
  CompositionBuilder &b = d.b;
  const bool resetsAfter = b.attributes().integer("linear_before_reset", 0) != 0;
  const bool isCell = resetsAfter && d.hasUsualCell();
  const OrderedGates own = d.weights(isCell);
  NodeValue stateBias = own.stateBias ? own.stateBias : d.zeros({3 * d.hidden});
  NodeValue state = d.initial(5);
  std::optional<GruRecurrence> parts;
  if (!isCell)
    parts.emplace(d, own.stateWeights, stateBias);
  States states;
  for (NodeValue product : d.inputProducts(own.inputWeights, own.inputBias)) {
    NodeValue next =
        isCell ? add(b, "GruCell", {product, d.product(state, own.stateWeights, stateBias), state},
                     placesOf(own))
               : gruStep(d, product, state, *parts, resetsAfter);
    const size_t step = states.all.size();
    state = d.kept(step, next, state);
    states.all.push_back(d.shown(step, state));
  }
  states.last = state;
  inInputOrder(d, states);
  return states;
}

States runRnn(Direction &d) {
  CompositionBuilder &b = d.b;
  const OrderedGates own = d.weights(false);
  NodeValue state = d.initial(5);
  States states;
  for (NodeValue product : d.inputProducts(own.inputWeights, summedBias(b, own))) {
    const size_t step = states.all.size();
    state = d.kept(step, d.activate(0, d.product(state, own.stateWeights, product)), state);
    states.all.push_back(d.shown(step, state));
  }
  states.last = state;
  inInputOrder(d, states);
  return states;
}

NodeValue joined(CompositionBuilder &b, const std::vector<NodeValue> &values, int64_t axis) {
  return values.size() == 1 ? values[0] : add(b, "Concat", values, {{"axis", axis}});
}

/// Outputs Y [steps, directions, batch, hidden], Y_h and (LSTM) Y_c [directions, batch, hidden];
/// with layout 1 the batch comes first.
std::vector<NodeValue> composeRecurrent(CompositionBuilder &b, int64_t gates,
                                        States (*run)(Direction &)) {
  const bool batchFirst = b.attributes().integer("layout", 0) != 0;
  checkRecurrentForm(b, gates);
  NodeValue x = batchFirst ? transposed(b, b.input(0), {1, 0, 2}) : b.input(0);
  const int64_t directions = b.type(b.input(2)).shape.at(0);
  std::vector<NodeValue> sequences, last, cells;
  for (int64_t number = 0; number < directions; ++number) {
    Direction d(b, x, gates, number);
    States states = run(d);
    for (NodeValue &state : states.all)
      state = reshaped(b, state, {1, 1, d.batch, d.hidden});
    sequences.push_back(joined(b, states.all, 0));
    last.push_back(reshaped(b, states.last, {1, d.batch, d.hidden}));
    if (states.lastCell)
      cells.push_back(reshaped(b, states.lastCell, {1, d.batch, d.hidden}));
  }
  std::vector<NodeValue> outputs = {joined(b, sequences, 1), joined(b, last, 0)};
  if (!cells.empty())
    outputs.push_back(joined(b, cells, 0));
  if (batchFirst) {
    outputs[0] = transposed(b, outputs[0], {2, 0, 1, 3});
    for (size_t i = 1; i < outputs.size(); ++i)
      outputs[i] = transposed(b, outputs[i], {1, 0, 2});
  }
  return outputs;
}

std::vector<NodeValue> composeLstm(CompositionBuilder &b) {
  return composeRecurrent(b, 4, runLstm);
}
std::vector<NodeValue> composeGru(CompositionBuilder &b) { return composeRecurrent(b, 3, runGru); }
std::vector<NodeValue> composeRnn(CompositionBuilder &b) { return composeRecurrent(b, 1, runRnn); }

} // namespace

std::span<const ComposedOperator> recurrentForms() {
  auto inputs = [](bool hasCell) {
    std::vector<Parameter> list = {
        {"X"}, {"W"}, {"R"}, {"B", true}, {"sequence_lens", true}, {"initial_h", true}};
    if (hasCell)
      list.insert(list.end(), {{"initial_c", true}, {"P", true}});
    return list;
  };
  static const ComposedOperator operators[] = {
      {{.name = "LSTM",
        .firstOpset = kFirstOpset,
        .lastOpset = kLastOpset,
        .inputs = inputs(true),
        .outputs = {{"Y", true}, {"Y_h", true}, {"Y_c", true}},
        .elements = floatElements()},
       composeLstm},
      {{.name = "GRU",
        .firstOpset = kFirstOpset,
        .lastOpset = kLastOpset,
        .inputs = inputs(false),
        .outputs = {{"Y", true}, {"Y_h", true}},
        .elements = floatElements()},
       composeGru},
      {{.name = "RNN",
        .firstOpset = kFirstOpset,
        .lastOpset = kLastOpset,
        .inputs = inputs(false),
        .outputs = {{"Y", true}, {"Y_h", true}},
        .elements = floatElements()},
       composeRnn},
  };
  return operators;
}

} // namespace pdc
