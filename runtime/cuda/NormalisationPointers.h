#pragma once

#include "runtime/kernels/NormalizationPointers.h"

namespace pdc::runtime::cuda {

/// Images are of the type that they are stored in, all else is f32.
template <size_t Results> struct NormalisationPointers : NormalizationPointers<Results, void> {
  using NormalizationPointers<Results, void>::NormalizationPointers;

  template <class T> const T *image(size_t i) const {
    return static_cast<const T *>(this->inputs[i]);
  }
  /// What is one number per channel.
  const float *input(size_t i) const { return static_cast<const float *>(this->inputs[i]); }
  float *output(size_t i) const { return static_cast<float *>(this->outputs[i]); }
};

} // namespace pdc::runtime::cuda
