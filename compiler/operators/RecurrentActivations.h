#pragma once

#include "compiler/operators/Composition.h"

#include <string>
#include <vector>

namespace pdc {

/// A function of gates or states of LSTM, GRU and RNN.
struct RecurrentActivation {
  std::string name;           ///< as attribute `activations` has it
  int numbers = 0;            ///< 1: it has an alpha, 2: a beta, too
  double alpha = 0, beta = 0;

  NodeValue of(CompositionBuilder &builder, NodeValue x) const;
};

/// Functions of a direction.
constexpr size_t activationsPerDirection(int64_t gates) {
  return gates == 4 ? 3 : gates == 3 ? 2 : 1;
}

/// Those of all directions of an LSTM (4 gates), GRU (3) or RNN (1), one behind the other. Of
/// `activation_alpha` and `activation_beta` each function that has such a number takes the next, or
/// what its ONNX operator begins with; more numbers are read by none. Refuses names that ONNX has
/// not, and others than there are functions.
std::vector<RecurrentActivation> readActivations(const CompositionBuilder &builder, int64_t gates,
                                                 int64_t directions);

} // namespace pdc
