#pragma once

#include "runtime/kernels/Dimensions.h"
#include "runtime/kernels/SoftmaxFields.h"

#include <array>
#include <initializer_list>

namespace pdc::runtime {

/// Scores are [samples, classes, pixels], labels [samples, pixels]. Labels equal to `ignoreIndex`
/// do not count where `ignores`. Other labels outside the classes are an Error. Rows of scores of
/// one pixel may lie `pitch` elements apart, those of their gradient `gradientPitch`, where that is
/// not 0.
struct LabelledFields {
  int64_t classes = 1;
  int64_t gradientPitch = 0;
  int64_t ignoreIndex = 0;
  int64_t ignores = 0;
  int64_t pitch = 0;
  int64_t pixels = 1;
  /// For each result pointer of a cross entropy, which of its results it takes: 0 the loss, 1 the
  /// logarithms of the probabilities, 2 the rows' scales. Those that are not there are not needed.
  Dimensions results{};
  int64_t samples = 1;
};

/// The results of a cross entropy; null: not needed.
struct CrossEntropyResults {
  float *loss, *logProbabilities, *scales;

  CrossEntropyResults(const LabelledFields &f, std::initializer_list<float *> given) {
    std::array<float *, 3> slots = {};
    assert(given.size() == f.results.size());
    for (size_t i = 0; i < given.size(); ++i)
      slots.at(size_t(f.results[i])) = given.begin()[i];
    loss = slots[0], logProbabilities = slots[1], scales = slots[2];
  }
};

/// The scores of a label as a row whose log softmax is taken.
inline SoftmaxFields scoreRows(const LabelledFields &f) {
  return {.inner = f.pixels, .logarithm = 1, .outer = f.samples, .size = f.classes};
}

} // namespace pdc::runtime
