#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>
#include <numeric>

/// One step of a recurrent layer behind its matrix products, as one kernel each way. Rows are
/// sequences; a row of gates is one beside the other, each as wide as a state. Attribute `gates`:
/// where each of ONNX's stands among them; left out: in its order.
namespace pdc {

namespace {

/// Elements of a cell in which everything depends on the same element of each gate and state.
struct Cells {
  int64_t rows, width;
  std::vector<int64_t> gates;
  Cells(const NodeView &node, const TensorType &state)
      : rows(state.shape[0]), width(state.shape[1]), gates(node.attributes.integers("gates")) {}

  template <class Body> void forEach(Body body) const {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < width; ++column)
        body(row * width + column, row, column);
  }
  /// Where gate `gate` of `count` stands.
  int64_t at(int64_t gate, int64_t count, int64_t row, int64_t column) const {
    const int64_t place = gates.empty() ? gate : gates[static_cast<size_t>(gate)];
    return (row * count + place) * width + column;
  }
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// An element of an input; zero where that is left out.
double valueOrZero(std::span<const Tensor *const> inputs, size_t input, int64_t i) {
  return input < inputs.size() && inputs[input] ? inputs[input]->data[static_cast<size_t>(i)] : 0;
}

void checkGates(const NodeView &node, size_t input, const TensorType &state, int64_t gates) {
  const TensorType &found = node.input(input);
  if (state.rank() != 2 ||
      found.shape != std::vector<int64_t>{state.shape[0], gates * state.shape[1]})
    refuse(node, "input " + std::to_string(input) + " is " + found.toString() + ", expected " +
                     std::to_string(gates) + " gates for each element of " + state.toString());
  std::vector<int64_t> places = node.attributes.integers("gates"), all(size_t(gates), 0);
  std::iota(all.begin(), all.end(), 0);
  if (!places.empty() && !std::ranges::is_permutation(places, all))
    refuse(node, "attribute 'gates' " + shapeText(places) + ", expected a place for each of " +
                     std::to_string(gates));
}

void checkLike(const NodeView &node, size_t input, const TensorType &state) {
  if (node.hasInput(input) && node.input(input).shape != state.shape)
    refuse(node, "input " + std::to_string(input) + " is " + node.input(input).toString() +
                     ", expected the shape of " + state.toString());
}

/// Gates i, o, f and the candidate: c' = f c + i candidate, h = o tanh(c').
std::vector<TensorType> inferLstm(const NodeView &node) {
  checkGates(node, 0, node.input(1), 4);
  return {{node.input(0).element, node.input(1).shape}, node.input(1)};
}

struct LstmGates {
  double in, out, forget, candidate;
  LstmGates(const Tensor &gates, const Cells &cells, int64_t row, int64_t column) {
    auto value = [&](int64_t gate) {
      return gates.data[static_cast<size_t>(cells.at(gate, 4, row, column))];
    };
    in = sigmoid(value(0)), out = sigmoid(value(1)), forget = sigmoid(value(2));
    candidate = std::tanh(value(3));
  }
};

std::vector<Tensor> evaluateLstm(const NodeView &node, std::span<const Tensor *const> inputs) {
  const std::vector<TensorType> types = inferLstm(node);
  Tensor state = Tensor::zeros(types[0]), next = Tensor::zeros(types[1]);
  const Cells cells(node, types[1]);
  cells.forEach([&](int64_t i, int64_t row, int64_t column) {
    const LstmGates g(*inputs[0], cells, row, column);
    next.data[i] = g.forget * inputs[1]->data[i] + g.in * g.candidate;
    state.data[i] = g.out * std::tanh(next.data[i]);
  });
  return {state, next};
}

void differentiateLstm(GradientBuilder &b) {
  if (!b.wants(0) && !b.wants(1))
    return;
  const std::vector<GradientValue> gradients =
      b.node("LstmCellGrad",
             {b.input(0), b.input(1), b.output(1), b.outputGradient(0), b.outputGradient(1)},
             b.attributes(), 2);
  for (size_t i = 0; i < 2; ++i)
    if (b.wants(i))
      b.setInputGradient(i, gradients[i]);
}

std::vector<TensorType> inferLstmGradient(const NodeView &node) {
  checkGates(node, 0, node.input(1), 4);
  for (size_t i = 2; i < 5; ++i)
    checkLike(node, i, node.input(1));
  return {node.input(0), node.input(1)};
}

std::vector<Tensor> evaluateLstmGradient(const NodeView &node,
                                         std::span<const Tensor *const> inputs) {
  const std::vector<TensorType> types = inferLstmGradient(node);
  Tensor dGates = Tensor::zeros(types[0]), dCell = Tensor::zeros(types[1]);
  const Cells cells(node, types[1]);
  cells.forEach([&](int64_t i, int64_t row, int64_t column) {
    const LstmGates g(*inputs[0], cells, row, column);
    const double shown = std::tanh(inputs[2]->data[i]), dState = valueOrZero(inputs, 3, i);
    const double dNext = valueOrZero(inputs, 4, i) + dState * g.out * (1 - shown * shown);
    auto at = [&](int64_t gate) -> double & {
      return dGates.data[static_cast<size_t>(cells.at(gate, 4, row, column))];
    };
    at(0) = dNext * g.candidate * g.in * (1 - g.in);
    at(1) = dState * shown * g.out * (1 - g.out);
    at(2) = dNext * inputs[1]->data[i] * g.forget * (1 - g.forget);
    at(3) = dNext * g.in * (1 - g.candidate * g.candidate);
    dCell.data[i] = dNext * g.forget;
  });
  return {dGates, dCell};
}

/// Gates z, r and the candidate of an input and of a state, the latter's candidate reset behind its
/// product: h' = (1 - z) candidate + z h.
std::vector<TensorType> inferGru(const NodeView &node) {
  checkGates(node, 0, node.input(2), 3);
  checkGates(node, 1, node.input(2), 3);
  return {node.input(2)};
}

struct GruGates {
  double update, reset, ofState, candidate;
  GruGates(const Tensor &input, const Tensor &state, const Cells &cells, int64_t row,
           int64_t column) {
    auto at = [&](int64_t gate) { return static_cast<size_t>(cells.at(gate, 3, row, column)); };
    update = sigmoid(input.data[at(0)] + state.data[at(0)]);
    reset = sigmoid(input.data[at(1)] + state.data[at(1)]);
    ofState = state.data[at(2)];
    candidate = std::tanh(input.data[at(2)] + reset * ofState);
  }
};

std::vector<Tensor> evaluateGru(const NodeView &node, std::span<const Tensor *const> inputs) {
  Tensor next = Tensor::zeros(inferGru(node)[0]);
  const Cells cells(node, next.type);
  cells.forEach([&](int64_t i, int64_t row, int64_t column) {
    const GruGates g(*inputs[0], *inputs[1], cells, row, column);
    next.data[i] = (1 - g.update) * g.candidate + g.update * inputs[2]->data[i];
  });
  return {next};
}

void differentiateGru(GradientBuilder &b) {
  if (!b.wants(0) && !b.wants(1) && !b.wants(2))
    return;
  const std::vector<GradientValue> gradients = b.node(
      "GruCellGrad", {b.input(0), b.input(1), b.input(2), b.outputGradient(0)}, b.attributes(), 3);
  for (size_t i = 0; i < 3; ++i)
    if (b.wants(i))
      b.setInputGradient(i, gradients[i]);
}

std::vector<TensorType> inferGruGradient(const NodeView &node) {
  inferGru(node);
  checkLike(node, 3, node.input(2));
  return {node.input(0), node.input(1), node.input(2)};
}

std::vector<Tensor> evaluateGruGradient(const NodeView &node,
                                        std::span<const Tensor *const> inputs) {
  const std::vector<TensorType> types = inferGruGradient(node);
  Tensor dInput = Tensor::zeros(types[0]), dState = Tensor::zeros(types[1]),
         dBefore = Tensor::zeros(types[2]);
  const Cells cells(node, types[2]);
  cells.forEach([&](int64_t i, int64_t row, int64_t column) {
    const GruGates g(*inputs[0], *inputs[1], cells, row, column);
    const double dNext = inputs[3]->data[i];
    const double dCandidate = dNext * (1 - g.update) * (1 - g.candidate * g.candidate);
    const double dUpdate = dNext * (inputs[2]->data[i] - g.candidate) * g.update * (1 - g.update);
    const double dReset = dCandidate * g.ofState * g.reset * (1 - g.reset);
    auto at = [&](int64_t gate) { return static_cast<size_t>(cells.at(gate, 3, row, column)); };
    dInput.data[at(0)] = dState.data[at(0)] = dUpdate;
    dInput.data[at(1)] = dState.data[at(1)] = dReset;
    dInput.data[at(2)] = dCandidate;
    dState.data[at(2)] = dCandidate * g.reset;
    dBefore.data[i] = dNext * g.update;
  });
  return {dInput, dState, dBefore};
}

} // namespace

std::span<const Operator> recurrentCellOperators() {
  static const Operator operators[] = {
      {.name = "LstmCell",
       .inputs = {{"gates"}, {"cell"}},
       .outputs = {{"state"}, {"next_cell"}},
       .infer = inferLstm,
       .evaluate = evaluateLstm,
       .differentiate = differentiateLstm},
      {.name = "LstmCellGrad",
       .inputs = {{"gates"}, {"cell"}, {"next_cell"}, {"dState", true}, {"dNext_cell", true}},
       .outputs = {{"dGates"}, {"dCell"}},
       .infer = inferLstmGradient,
       .evaluate = evaluateLstmGradient},
      {.name = "GruCell",
       .inputs = {{"input_gates"}, {"state_gates"}, {"state"}},
       .outputs = {{"next_state"}},
       .infer = inferGru,
       .evaluate = evaluateGru,
       .differentiate = differentiateGru},
      {.name = "GruCellGrad",
       .inputs = {{"input_gates"}, {"state_gates"}, {"state"}, {"dNext_state"}},
       .outputs = {{"dInput_gates"}, {"dState_gates"}, {"dState"}},
       .infer = inferGruGradient,
       .evaluate = evaluateGruGradient},
  };
  return operators;
}

} // namespace pdc
