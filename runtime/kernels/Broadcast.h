#pragma once

#include "runtime/kernels/Elementwise.h"

#include <array>

/// Loops over arrays that are repeated along dimensions, or are parts of larger ones: generated
/// code gives the body, the sizes and the strides, so that the compiler knows which neighbours lie
/// next to each other.
namespace pdc::runtime {

/// The sizes of the dimensions that are walked, the outermost first.
template <int64_t... Sizes> struct Extents {};

/// An array: elements from one index to the next along each dimension, 0 where it is repeated.
template <class T, int64_t... Strides> struct Strided {
  using Element = T;
  T *data;

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

template <int64_t... Strides, class T> Strided<const T, Strides...> strided(const T *data) {
  return {data};
}

/// The part of an array that begins `Offset` elements behind it.
template <int64_t Offset, int64_t... Strides, class T> Strided<T, Strides...> part(T *data) {
  return {data + Offset};
}

/// Where several results of a loop over parts go. (A loop for each number of them: the compiler
/// vectorises none over a std::tuple of places.)
template <class... Parts> struct Into;
template <class A, class B> struct Into<A, B> {
  A a;
  B b;
};
template <class A, class B, class C> struct Into<A, B, C> {
  A a;
  B b;
  C c;
};
template <class A, class B, class C, class D> struct Into<A, B, C, D> {
  A a;
  B b;
  C c;
  D d;
};
template <class... Parts> Into<Parts...> into(Parts... parts) { return {parts...}; }

namespace detail {

template <class Body, class Out, class... In>
void walkRow(int64_t count, const Body &body, Out *out, In... in) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<Out>(body(in.data[i * In::step()]...));
}

template <class Body, class A, class B, class... In>
void walkRow(int64_t count, const Body &body, Into<A, B> out, In... in) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const auto result = body(in.data[i * In::step()]...);
    out.a.data[i * A::step()] = static_cast<typename A::Element>(result.first);
    out.b.data[i * B::step()] = static_cast<typename B::Element>(result.second);
  }
}

template <class Body, class A, class B, class C, class... In>
void walkRow(int64_t count, const Body &body, Into<A, B, C> out, In... in) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const auto result = body(in.data[i * In::step()]...);
    out.a.data[i * A::step()] = static_cast<typename A::Element>(result.first);
    out.b.data[i * B::step()] = static_cast<typename B::Element>(result.second);
    out.c.data[i * C::step()] = static_cast<typename C::Element>(result.third);
  }
}

template <class Body, class A, class B, class C, class D, class... In>
void walkRow(int64_t count, const Body &body, Into<A, B, C, D> out, In... in) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const auto result = body(in.data[i * In::step()]...);
    out.a.data[i * A::step()] = static_cast<typename A::Element>(result.first);
    out.b.data[i * B::step()] = static_cast<typename B::Element>(result.second);
    out.c.data[i * C::step()] = static_cast<typename C::Element>(result.third);
    out.d.data[i * D::step()] = static_cast<typename D::Element>(result.fourth);
  }
}

/// One dimension is left: its elements are shared among threads.
template <class Body, class Out, class... In>
void walkOnly(int64_t count, const Body &body, Out *out, In... in) {
#pragma omp parallel for simd schedule(static) if (parallel : count >= kParallelElements)
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<Out>(body(in.data[i * In::step()]...));
}

template <int64_t... Sizes, class Out> Out *rowOf(Extents<Sizes...>, Out *y, int64_t row) {
  constexpr std::array<int64_t, sizeof...(Sizes)> sizes = {Sizes...};
  return y + row * sizes.back();
}
template <class Walked, class T, int64_t... Strides>
Strided<T, Strides...> rowOf(Walked walked, Strided<T, Strides...> part, int64_t row) {
  return {part.data + part.offset(walked, row)};
}
template <class Walked, class A, class B>
Into<A, B> rowOf(Walked walked, Into<A, B> out, int64_t row) {
  return {rowOf(walked, out.a, row), rowOf(walked, out.b, row)};
}
template <class Walked, class A, class B, class C>
Into<A, B, C> rowOf(Walked walked, Into<A, B, C> out, int64_t row) {
  return {rowOf(walked, out.a, row), rowOf(walked, out.b, row), rowOf(walked, out.c, row)};
}

template <class Walked, class A, class B, class C, class D>
Into<A, B, C, D> rowOf(Walked walked, Into<A, B, C, D> out, int64_t row) {
  return {rowOf(walked, out.a, row), rowOf(walked, out.b, row), rowOf(walked, out.c, row),
          rowOf(walked, out.d, row)};
}

} // namespace detail

/// results = body(operands...) at each index, row-major. Results: a pointer to one, which an
/// operand with its strides may be, or two to four that may lie apart: `into(part<...>(y), ...)`.
template <int64_t... Sizes, class Body, class Results, class... In>
void broadcast(const Run &, Extents<Sizes...> extents, Body body, Results results, In... in) {
  constexpr std::array<int64_t, sizeof...(Sizes)> sizes = {Sizes...};
  constexpr int64_t inner = sizes.back(), rows = (Sizes * ... * int64_t(1)) / inner;
  if constexpr (sizes.size() == 1 && std::is_pointer_v<Results>) {
    detail::walkOnly(inner, body, results, in...);
  } else {
#pragma omp parallel for schedule(static) if (parallel : rows * inner >= kParallelElements)
    for (int64_t row = 0; row < rows; ++row)
      detail::walkRow(inner, body, detail::rowOf(extents, results, row),
                      detail::rowOf(extents, in, row)...);
  }
}

} // namespace pdc::runtime
