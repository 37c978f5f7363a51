#pragma once

#include "runtime/kernels/Dimensions.h"

#include <array>
#include <initializer_list>

namespace pdc::runtime {

/// A step of a recurrent layer: for each of `rows` sequences a state of `width` elements, and gates
/// that lie beside one another in a row.
///
/// Gradients on GPUs take what arrives at the state as so many `terms`, which they add up in their
/// order; the second and further ones stand behind all operands.
struct RecurrentCellFields {
  static constexpr size_t kMostTerms = 4;

  /// Where each gate stands among them, in ONNX's order; empty: there.
  Dimensions gates{};
  /// For each result pointer of a call, which of the kernel's results it takes. Those that are not
  /// there are not needed.
  Dimensions results{};
  int64_t rows = 1;
  int64_t terms = 1;
  int64_t width = 1;

  /// Where the elements of a gate begin in a row.
  constexpr int64_t begin(size_t gate) const {
    return (gates.empty() ? int64_t(gate) : gates[gate]) * width;
  }
};

/// The results of a call, of types that their kernel knows; null: not needed.
inline std::array<void *, 3> cellResults(const RecurrentCellFields &fields,
                                         std::initializer_list<void *> given) {
  std::array<void *, 3> slots = {};
  assert(given.size() == fields.results.size());
  for (size_t i = 0; i < given.size(); ++i)
    slots.at(size_t(fields.results[i])) = given.begin()[i];
  return slots;
}

} // namespace pdc::runtime
