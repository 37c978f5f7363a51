#include "runtime/kernels/GruCell.h"
#include "runtime/kernels/GruCellGradient.h"
#include "runtime/kernels/HyperbolicTangent.h"
#include "runtime/kernels/LstmCell.h"
#include "runtime/kernels/LstmCellGradient.h"
#include "runtime/kernels/RecurrentCellElements.h"

namespace pdc::runtime {

namespace {

struct Functions {
  static float sigmoid(float x) { return 1 / (1 + exponential(-x)); }
  static float tanh(float x) { return hyperbolicTangent(x); }
};
using Lstm = LstmElement<Functions>;
using Gru = GruElement<Functions>;

float *numbers(void *result) { return static_cast<float *>(result); }

/// body(index of the element, index of its first gate of `gates`), in vectors along each row.
template <class Body>
void forEachElement(const RecurrentCellFields &f, int threads, int64_t gates, Body body) {
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t row = 0; row < f.rows; ++row)
#pragma omp simd
    for (int64_t column = 0; column < f.width; ++column)
      body(row * f.width + column, row * gates * f.width + column);
}

} // namespace

void LstmCell::call(const Run &, const float *gates, const float *cell,
                    const std::array<void *, 3> &results) const {
  float *state = numbers(results[0]), *next = numbers(results[1]);
  const int64_t in = fields.begin(0), out = fields.begin(1), forget = fields.begin(2),
                candidate = fields.begin(3);
  forEachElement(fields, threads, 4, [=](int64_t i, int64_t g) {
    const Lstm element(gates[g + in], gates[g + out], gates[g + forget], gates[g + candidate]);
    const float after = element.next(cell[i]);
    if (state)
      state[i] = element.state(after);
    if (next)
      next[i] = after;
  });
}

void LstmCellGradient::call(const Run &, const float *gates, const float *cell, const float *next,
                            const float *ofState, const float *ofNext,
                            const std::array<void *, 3> &results) const {
  float *ofGates = numbers(results[0]), *ofCell = numbers(results[1]);
  const int64_t in = fields.begin(0), out = fields.begin(1), forget = fields.begin(2),
                candidate = fields.begin(3);
  forEachElement(fields, threads, 4, [=](int64_t i, int64_t g) {
    const Lstm element(gates[g + in], gates[g + out], gates[g + forget], gates[g + candidate]);
    const Lstm::Gradient d =
        element.gradient(cell[i], next[i], ofState ? ofState[i] : 0, ofNext ? ofNext[i] : 0);
    if (ofGates) {
      ofGates[g + in] = d.in, ofGates[g + out] = d.out;
      ofGates[g + forget] = d.forget, ofGates[g + candidate] = d.candidate;
    }
    if (ofCell)
      ofCell[i] = d.cell;
  });
}

void GruCell::operator()(const Run &, const float *ofInput, const float *ofState,
                         const float *state, float *next) const {
  const int64_t update = fields.begin(0), reset = fields.begin(1), candidate = fields.begin(2);
  forEachElement(fields, threads, 3, [=](int64_t i, int64_t g) {
    const Gru element({ofInput[g + update], ofInput[g + reset], ofInput[g + candidate]},
                      {ofState[g + update], ofState[g + reset], ofState[g + candidate]});
    next[i] = element.next(state[i]);
  });
}

void GruCellGradient::call(const Run &, const float *ofInput, const float *ofState,
                           const float *state, const float *ofNext,
                           const std::array<void *, 3> &results) const {
  float *dInput = numbers(results[0]), *dState = numbers(results[1]),
        *dBefore = numbers(results[2]);
  const int64_t update = fields.begin(0), reset = fields.begin(1), candidate = fields.begin(2);
  // Vectors of what may not be there take twice as long.
  auto each = [=, this](auto isWhole) {
    forEachElement(fields, threads, 3, [=](int64_t i, int64_t g) {
      const Gru element({ofInput[g + update], ofInput[g + reset], ofInput[g + candidate]},
                        {ofState[g + update], ofState[g + reset], ofState[g + candidate]});
      const Gru::Gradient d = element.gradient(state[i], ofNext[i]);
      if (isWhole || dInput)
        dInput[g + update] = d.update, dInput[g + reset] = d.reset,
                   dInput[g + candidate] = d.candidate;
      if (isWhole || dState)
        dState[g + update] = d.update, dState[g + reset] = d.reset,
                   dState[g + candidate] = d.candidateOfState;
      if (isWhole || dBefore)
        dBefore[i] = d.state;
    });
  };
  dInput && dState && dBefore ? each(std::true_type()) : each(std::false_type());
}

} // namespace pdc::runtime
