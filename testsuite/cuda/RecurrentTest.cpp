#include "testsuite/cuda/CudaCase.h"
#include "testsuite/cuda/Rounding.h"
#include "testsuite/kernels/EitherDevice.h"

namespace pdc {

TEST(CudaKernels, RecurrentCells) { expectRecurrentCells<CudaCase>(); }

namespace narrow {

/// Cells of LSTMs are f32 whatever gates and states are stored in.
TYPED_TEST(Narrow, RecurrentCellsRound) {
  for (const int64_t width : {8, 5}) {
    const int64_t states = 6 * width;
    runtime::RecurrentCellFields f{.results = {0}, .rows = 6, .width = width};
    runtime::cuda::LstmCell lstm(device, f);
    runtime::cuda::LstmCellGradient lstmGradient(device, f);
    runtime::cuda::GruCell gru(device, f);
    runtime::cuda::GruCellGradient gruGradient(device, f);
    const Both<TypeParam> four(4 * states), three(3 * states), more(3 * states), state(states),
        dState(states);
    const std::vector<float> cell = numbers(states), next = numbers(states),
                             dNext = numbers(states);
    expectRounds<TypeParam>(
        states, [&](auto &run, auto *y, auto *gates) { lstm(run, gates, cell.data(), y); }, four);
    expectRounds<TypeParam>(
        4 * states,
        [&](auto &run, auto *dGates, auto *gates, auto *dState) {
          lstmGradient(run, gates, cell.data(), next.data(), dState, dNext.data(), dGates);
        },
        four, dState);
    expectRounds<TypeParam>(
        states,
        [&](auto &run, auto *y, auto *input, auto *ofState, auto *state) {
          gru(run, input, ofState, state, y);
        },
        three, more, state);
    expectRounds<TypeParam>(
        3 * states,
        [&](auto &run, auto *dInput, auto *input, auto *ofState, auto *state, auto *dState) {
          gruGradient(run, input, ofState, state, dState, dInput);
        },
        three, more, state, dState);
  }
}

} // namespace narrow
} // namespace pdc
