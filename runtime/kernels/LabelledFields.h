#pragma once

#include "runtime/kernels/SoftmaxFields.h"

namespace pdc::runtime {

/// Scores are [samples, classes, pixels], labels [samples, pixels]. Labels equal to `ignoreIndex`
/// do not count where `ignores`. Other labels outside the classes are an Error. Scores, and
/// the gradients of cross entropies, of one pixel may lie `pitch` elements apart, where that is not
/// 0.
struct LabelledFields {
  int64_t classes = 1;
  int64_t ignoreIndex = 0;
  int64_t ignores = 0;
  int64_t pitch = 0;
  int64_t pixels = 1;
  int64_t samples = 1;
};

/// The scores of a label as a row whose log softmax is taken.
inline SoftmaxFields scoreRows(const LabelledFields &f) {
  return {.inner = f.pixels, .logarithm = 1, .outer = f.samples, .size = f.classes};
}

} // namespace pdc::runtime
