#pragma once

#include "runtime/cuda/Launch.h"
#include "runtime/kernels/GatherFields.h"

namespace pdc::runtime::cuda {

/// Of an index, which may count from the end; -1: outside the table.
template <class Index> PDC_EITHER int64_t pickedRow(const GatherFields &f, Index index) {
  const int64_t row = index < 0 ? index + f.size : index;
  return row < 0 || row >= f.size ? -1 : row;
}

} // namespace pdc::runtime::cuda
