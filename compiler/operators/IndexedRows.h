#pragma once

#include "compiler/operators/Composition.h"

#include <vector>

namespace pdc {

/// Where indices point to: rows of a tensor that is seen as [rows, inner...].
struct IndexedRows {
  NodeValue data;
  NodeValue indices; ///< int64, not negative
  int64_t count = 1;
  std::vector<int64_t> inner; ///< the shape of a row

  std::vector<int64_t> flatShape() const {
    std::vector<int64_t> shape = {count};
    shape.insert(shape.end(), inner.begin(), inner.end());
    return shape;
  }
};

/// Tuples of input 1 along its last dimension name rows of input 0 behind `batch` dimensions that
/// both have, as in GatherND. Refuses what does not fit, and a known index that is outside.
IndexedRows rowsOfTuples(CompositionBuilder &builder, size_t batch);

/// Element (i, j, k) of input 1 replaces coordinate `axis`, an attribute, of place (i, j, k) of
/// input 0, as in GatherElements. Rows that are only read may be of what input 0 repeats. Refuses
/// the same.
IndexedRows rowsOfElements(CompositionBuilder &builder, bool areRead);

} // namespace pdc
