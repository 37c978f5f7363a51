#pragma once

#include <cstdint>
#include <span>

namespace pdc::runtime::cuda {

/// An NC... tensor stored [sample][pixel][channel] (a matrix as it is): a matrix with a column per
/// channel.
struct Channels {
  int64_t rows, columns;

  explicit Channels(std::span<const int64_t> shape) : rows(shape[0]), columns(shape[1]) {
    for (size_t d = 2; d < shape.size(); ++d)
      rows *= shape[d];
  }
  int64_t elements() const { return rows * columns; }
};

} // namespace pdc::runtime::cuda
