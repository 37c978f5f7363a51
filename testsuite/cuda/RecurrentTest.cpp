#include "testsuite/cuda/CudaCase.h"
#include "testsuite/cuda/Rounding.h"
#include "testsuite/kernels/EitherDevice.h"

namespace pdc {

TEST(CudaKernels, RecurrentCells) { expectRecurrentCells<CudaCase>(); }

/// What arrives at a state as a sum; for LSTMs with what arrives at the cell and without.
TEST(CudaKernels, RecurrentCellsSumWhatArrives) {
  constexpr int kMost = runtime::RecurrentCellFields::kMostTerms;
  for (const int64_t width : {16, 7})
    for (int terms = 2; terms <= kMost; ++terms) {
      auto gates = [&](UnitCase &u, int64_t count) { return u.operand({3, count * width}, -4, 4); };
      auto state = [&](UnitCase &u) { return u.operand({3, width}, -2, 2); };
      auto sum = [&](UnitCase &u) {
        std::vector<UnitValue> arriving;
        for (int term = 0; term < terms; ++term)
          arriving.push_back(state(u));
        return u.node("Sum", arriving);
      };
      for (const bool isLast : {false, true})
        for (const std::vector<int> &results : {std::vector<int>{0, 1}, {0}, {1}}) {
          CudaCase lstm;
          const UnitValue g = gates(lstm, 4), cell = state(lstm), next = state(lstm);
          const UnitValue ofNext = isLast ? UnitValue() : state(lstm);
          const UnitValue d = lstm.node("LstmCellGrad", {g, cell, next, sum(lstm), ofNext}, {}, 2);
          for (const int slot : results)
            lstm.result(UnitValue::node(d.index, slot));
          lstm.check(1e-5);
          EXPECT_EQ(lstm.choice.fields.integer("terms", 1), terms);
        }
      for (const std::vector<int> &results : {std::vector<int>{0, 1, 2}, {0, 1}, {2}}) {
        CudaCase gru;
        const UnitValue input = gates(gru, 3), ofState = gates(gru, 3), before = state(gru);
        const UnitValue d = gru.node("GruCellGrad", {input, ofState, before, sum(gru)}, {}, 3);
        for (const int slot : results)
          gru.result(UnitValue::node(d.index, slot));
        gru.check(1e-5);
        EXPECT_EQ(gru.choice.fields.integer("terms", 1), terms);
      }
    }
}

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

/// A sum has the bits of a loop that stores it, also where a result takes the place of a term.
TYPED_TEST(Narrow, RecurrentCellsSumAsLoops) {
  for (const int64_t width : {8, 5}) {
    const int64_t states = 6 * width;
    const Both<TypeParam> gates(4 * states), ofInput(3 * states), ofState(3 * states), a(states),
        b(states), c(states), before(states);
    const std::vector<float> cell = numbers(states), next = numbers(states);
    const size_t count = static_cast<size_t>(states);
    std::vector<TypeParam> stored(count), expected(4 * count), found = expected;
    for (size_t i = 0; i < stored.size(); ++i)
      stored[i] = TypeParam((a.wide[i] + b.wide[i]) + c.wide[i]);
    Scratch scratch;
    runtime::RecurrentCellFields one{.results = {0}, .rows = 6, .width = width}, three = one;
    three.terms = 3;
    const float *none = nullptr;
    runtime::cuda::LstmCellGradient(device, one)(scratch.run, gates.narrow.data(), cell.data(),
                                                 next.data(), stored.data(), none, expected.data());
    runtime::cuda::LstmCellGradient(device, three)(scratch.run, gates.narrow.data(), cell.data(),
                                                   next.data(), a.narrow.data(), none,
                                                   b.narrow.data(), c.narrow.data(), found.data());
    finish();
    EXPECT_TRUE(haveEqualBits(found, expected));
    one.results = three.results = {2};
    expected.resize(count), found = c.narrow;
    runtime::cuda::GruCellGradient(device, one)(scratch.run, ofInput.narrow.data(),
                                                ofState.narrow.data(), before.narrow.data(),
                                                stored.data(), expected.data());
    const TypeParam *last = found.data();
    runtime::cuda::GruCellGradient(device, three)(
        scratch.run, ofInput.narrow.data(), ofState.narrow.data(), before.narrow.data(),
        a.narrow.data(), b.narrow.data(), last, found.data());
    finish();
    EXPECT_TRUE(haveEqualBits(found, expected));
  }
}

} // namespace narrow
} // namespace pdc
