#pragma once

#include "runtime/kernels/Elementwise.h"

#include <array>

/// Loops over arrays that are repeated along dimensions: generated code gives the body, the sizes
/// and the strides, so that the compiler knows which neighbours lie next to each other.
namespace pdc::runtime {

/// The sizes of the dimensions that are walked, the outermost first.
template <int64_t... Sizes> struct Extents {};

/// An operand: elements from one index to the next along each dimension, 0 where it is repeated.
template <class T, int64_t... Strides> struct Strided {
  const T *data;

  static constexpr int64_t step() {
    constexpr std::array<int64_t, sizeof...(Strides)> strides = {Strides...};
    return strides.back();
  }
  /// Where row `row` starts: the index of all dimensions but the last, counted through.
  template <int64_t... Sizes> static int64_t offset(Extents<Sizes...>, int64_t row) {
    constexpr std::array<int64_t, sizeof...(Sizes)> sizes = {Sizes...};
    constexpr std::array<int64_t, sizeof...(Strides)> strides = {Strides...};
    int64_t start = 0;
    for (size_t d = sizeof...(Sizes) - 1; d-- > 0; row /= sizes[d])
      start += row % sizes[d] * strides[d];
    return start;
  }
};

template <int64_t... Strides, class T> Strided<T, Strides...> strided(const T *data) {
  return {data};
}

namespace detail {

template <class Body, class Out, class... In>
void walkRow(int64_t count, const Body &body, Out *out, In... in) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<Out>(body(in.data[i * In::step()]...));
}

/// One dimension is left: its elements are shared among threads.
template <class Body, class Out, class... In>
void walkOnly(int64_t count, const Body &body, Out *out, In... in) {
#pragma omp parallel for simd schedule(static) if (parallel : count >= kParallelElements)
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<Out>(body(in.data[i * In::step()]...));
}

} // namespace detail

/// y = body(operands...) at each index, row-major. An operand with y's own strides may be y.
template <int64_t... Sizes, class Body, class Out, class... In>
void broadcast(const Run &, Extents<Sizes...> extents, Body body, Out *y, In... in) {
  constexpr std::array<int64_t, sizeof...(Sizes)> sizes = {Sizes...};
  constexpr int64_t inner = sizes.back(), rows = (Sizes * ... * int64_t(1)) / inner;
  if constexpr (sizes.size() == 1) {
    detail::walkOnly(inner, body, y, in...);
  } else {
#pragma omp parallel for schedule(static) if (parallel : rows * inner >= kParallelElements)
    for (int64_t row = 0; row < rows; ++row)
      detail::walkRow(inner, body, y + row * inner, In{in.data + In::offset(extents, row)}...);
  }
}

} // namespace pdc::runtime
