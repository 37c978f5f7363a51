#pragma once

#include "runtime/Error.h"
#include "runtime/kernels/Dimensions.h"

#include <array>
#include <initializer_list>
#include <span>

namespace pdc::runtime::cuda {

/// Operands, then results put into their places; what is not asked for is null.
template <size_t Results> struct NormalisationPointers {
  std::span<const void *const> inputs; ///< of the call's own list
  std::array<void *, Results> outputs = {};

  /// `results`: for each result pointer, which of the kernel's results it takes.
  NormalisationPointers(const Dimensions &results, size_t inputCount,
                        std::initializer_list<const void *> all) {
    if (all.size() != inputCount + results.size())
      throw Error("normalization: called with ", all.size(), " tensors, expected ",
                  inputCount + results.size());
    inputs = {all.begin(), inputCount};
    for (size_t i = 0; i < results.size(); ++i)
      outputs.at(results[i]) = const_cast<void *>(all.begin()[inputCount + i]);
  }
  template <class T> const T *image(size_t i) const { return static_cast<const T *>(inputs[i]); }
  /// What is one number per channel.
  const float *input(size_t i) const { return static_cast<const float *>(inputs[i]); }
  float *output(size_t i) const { return static_cast<float *>(outputs[i]); }
};

} // namespace pdc::runtime::cuda
