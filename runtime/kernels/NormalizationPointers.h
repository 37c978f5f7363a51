#pragma once

#include "runtime/Error.h"
#include "runtime/kernels/Dimensions.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>

namespace pdc::runtime {

/// The pointers of a call: operands, then results put into their places; what is not asked for is
/// null. Element: void where they are of several types.
template <size_t Results, class Element = float> struct NormalizationPointers {
  std::span<const Element *const> inputs; ///< of the call's own list
  std::array<Element *, Results> outputs = {};

  /// `results`: for each result pointer, which of the kernel's results it takes. Throws Error when
  /// the number of pointers is another.
  NormalizationPointers(const Dimensions &results, size_t inputCount,
                        std::initializer_list<const Element *> pointers)
      : inputs(pointers.begin(), std::min(inputCount, pointers.size())) {
    if (pointers.size() != inputCount + results.size())
      throw Error("normalization: called with ", pointers.size(), " tensors, expected ",
                  inputCount + results.size());
    for (size_t i = 0; i < results.size(); ++i)
      outputs.at(results[i]) = const_cast<Element *>(pointers.begin()[inputCount + i]);
  }
};

} // namespace pdc::runtime
