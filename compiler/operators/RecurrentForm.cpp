#include "compiler/operators/RecurrentForm.h"

#include "compiler/operators/RecurrentActivations.h"
#include "compiler/operators/Rules.h"

namespace pdc {

namespace {

class RecurrentForm {
public:
  RecurrentForm(CompositionBuilder &builder, int64_t gates)
      : b(builder), gates(gates), x(b.type(b.input(0))), weights(b.type(b.input(1))),
        recurrence(b.type(b.input(2))) {}

  void check() {
    checkMatrices();
    checkInput(3, "B", {directions, 2 * gates * hidden});
    const std::vector<int64_t> state = batchFirst ? std::vector{batch, directions, hidden}
                                                  : std::vector{directions, batch, hidden};
    checkInput(5, "initial_h", state);
    checkInput(6, "initial_c", state);
    checkInput(7, "P", {directions, 3 * hidden});
    checkLengths();
    readActivations(b, gates, directions);
    if (b.attributes().has("clip") && !(b.attributes().number("clip", 0) > 0))
      b.refuse("attribute 'clip' is " + std::to_string(b.attributes().number("clip", 0)) +
               ", expected a positive number");
  }

private:
  void checkMatrices();
  void checkInput(size_t number, const std::string &name, const std::vector<int64_t> &shape);
  void checkLengths();

  std::string states() const {
    return std::to_string(directions) + " direction" + (directions > 1 ? "s" : "") + " of " +
           std::to_string(hidden) + " states";
  }

  CompositionBuilder &b;
  int64_t gates;
  TensorType x, weights, recurrence;
  int64_t directions = 1, hidden = 0, steps = 0, batch = 0;
  bool batchFirst = false;
};

void RecurrentForm::checkMatrices() {
  if (x.rank() != 3 || weights.rank() != 3 || recurrence.rank() != 3)
    b.refuse("input " + x.toString() + " and weights " + weights.toString() + " and " +
             recurrence.toString() +
             ", expected a sequence of batches of vectors, and of each "
             "direction a matrix");
  const int64_t layout = b.attributes().integer("layout", 0);
  if (layout != 0 && layout != 1)
    b.refuse("layout " + std::to_string(layout) + ", expected 0 or 1");
  batchFirst = layout == 1;
  steps = x.shape[layout ? 1 : 0], batch = x.shape[layout ? 0 : 1];
  const std::string direction = b.attributes().string("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    b.refuse("direction '" + direction + "', expected forward, reverse or bidirectional");
  directions = direction == "bidirectional" ? 2 : 1;
  hidden = recurrence.shape[2];
  if (const int64_t given = b.attributes().integer("hidden_size", hidden); given != hidden)
    b.refuse("hidden_size " + std::to_string(given) + " and weights " + recurrence.toString() +
             ", expected as many states in the last dimension");
  if (weights.shape != std::vector<int64_t>{directions, gates * hidden, x.shape[2]} ||
      recurrence.shape != std::vector<int64_t>{directions, gates * hidden, hidden})
    b.refuse("weights " + weights.toString() + " and " + recurrence.toString() + " for " +
             states() + ", expected " + shapeText({directions, gates * hidden, x.shape[2]}) +
             " and " + shapeText({directions, gates * hidden, hidden}));
  if (weights.element != x.element || recurrence.element != x.element)
    b.refuse("input " + x.toString() + " and weights " + weights.toString() + " and " +
             recurrence.toString() + ", expected one element type");
}

void RecurrentForm::checkInput(size_t number, const std::string &name,
                               const std::vector<int64_t> &shape) {
  if (!b.input(number))
    return;
  const TensorType found = b.type(b.input(number)), expected{x.element, shape};
  if (found.element != expected.element || found.shape != expected.shape)
    b.refuse("input " + std::to_string(number) + " (" + name + ") is " + found.toString() +
             ", expected " + expected.toString() + " for " + states());
}

void RecurrentForm::checkLengths() {
  if (!b.input(4))
    return;
  const TensorType found = b.type(b.input(4));
  const bool isInteger = found.element == ElementType::i32 || found.element == ElementType::i64;
  if (!isInteger || found.shape != std::vector<int64_t>{batch})
    b.refuse("input 4 (sequence_lens) is " + found.toString() + ", expected " +
             std::to_string(batch) + " lengths as integers");
  const Tensor *known = b.known(b.input(4));
  for (size_t i = 0; known && i < known->data.size(); ++i)
    if (known->data[i] < 0 || known->data[i] > static_cast<double>(steps))
      b.refuse("input 4 (sequence_lens) has length " +
               std::to_string(static_cast<int64_t>(known->data[i])) + " at " + std::to_string(i) +
               ", expected 0 to " + std::to_string(steps));
}

} // namespace

void checkRecurrentForm(CompositionBuilder &builder, int64_t gates) {
  RecurrentForm(builder, gates).check();
}

} // namespace pdc
