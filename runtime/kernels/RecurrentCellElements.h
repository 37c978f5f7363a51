#pragma once

namespace pdc::runtime {

/// The arithmetic of one element of an LSTM's step: c' = f c + i candidate, h = o tanh(c').
/// `Functions` are a device's sigmoid and tanh.
template <class Functions> struct LstmElement {
  float in, out, forget, candidate;

  /// In the order of ONNX's gates, before their functions.
  constexpr LstmElement(float i, float o, float f, float c)
      : in(Functions::sigmoid(i)), out(Functions::sigmoid(o)), forget(Functions::sigmoid(f)),
        candidate(Functions::tanh(c)) {}
  constexpr float next(float cell) const { return forget * cell + in * candidate; }
  constexpr float state(float next) const { return out * Functions::tanh(next); }

  /// Of the gates before their functions, and of the cell before the step.
  struct Gradient {
    float in, out, forget, candidate, cell;
  };
  constexpr Gradient gradient(float cell, float next, float ofState, float ofNext) const {
    const float shown = Functions::tanh(next);
    const float whole = ofNext + ofState * out * (1 - shown * shown);
    return {whole * candidate * in * (1 - in), ofState * shown * out * (1 - out),
            whole * cell * forget * (1 - forget), whole * in * (1 - candidate * candidate),
            whole * forget};
  }
};

/// The same of a GRU whose reset acts behind the state's product:
/// h' = (1 - z) candidate + z h, candidate = tanh(x + r s).
template <class Functions> struct GruElement {
  float update, reset, ofState, candidate;

  /// The gates z, r and the candidate of the input, then of the state.
  constexpr GruElement(const float (&input)[3], const float (&state)[3])
      : update(Functions::sigmoid(input[0] + state[0])),
        reset(Functions::sigmoid(input[1] + state[1])), ofState(state[2]),
        candidate(Functions::tanh(input[2] + reset * state[2])) {}
  constexpr float next(float state) const { return candidate + update * (state - candidate); }

  /// Of the gates of the input; those of the state are the same but for the candidate's.
  struct Gradient {
    float update, reset, candidate, candidateOfState, state;
  };
  constexpr Gradient gradient(float state, float ofNext) const {
    const float inner = ofNext * (1 - update) * (1 - candidate * candidate);
    return {ofNext * (state - candidate) * update * (1 - update),
            inner * ofState * reset * (1 - reset), inner, inner * reset, ofNext * update};
  }
};

} // namespace pdc::runtime
