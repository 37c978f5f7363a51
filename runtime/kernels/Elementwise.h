#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/ErrorFunction.h"
#include "runtime/kernels/Exponential.h"
#include "runtime/kernels/HyperbolicTangent.h"
#include "runtime/kernels/Logarithm.h"
#include "runtime/kernels/OutsideRows.h"
#include "runtime/kernels/Power.h"
#include "runtime/kernels/Trigonometry.h"

#include <cmath>
#include <tuple>
#include <type_traits>
#include <utility>

/// Loops over equally long arrays: generated code gives the body. Results may be the same memory as
/// operands, never overlap them otherwise.
namespace pdc::runtime {

/// Loops shorter than this are not worth waking threads for.
inline constexpr int64_t kParallelElements = 1 << 15;

template <class A, class B> struct Results2 {
  A first;
  B second;
};
template <class A, class B, class C> struct Results3 {
  A first;
  B second;
  C third;
};
template <class A, class B, class C, class D> struct Results4 {
  A first;
  B second;
  C third;
  D fourth;
};
/// What a loop body returns when it computes several results. (Plain structs: the compiler
/// vectorises no loop whose body returns a std::tuple.)
template <class A, class B> Results2<A, B> results(A a, B b) { return {a, b}; }
template <class A, class B, class C> Results3<A, B, C> results(A a, B b, C c) { return {a, b, c}; }
template <class A, class B, class C, class D> Results4<A, B, C, D> results(A a, B b, C c, D d) {
  return {a, b, c, d};
}

namespace detail {

template <class Body, class Out, class... In>
void loopOne(int64_t count, Body body, Out *out, In *...in) {
#pragma omp parallel for simd schedule(static) if (parallel : count >= kParallelElements)
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<Out>(body(in[i]...));
}

template <class Body, class A, class B, class... In>
void loopTwo(int64_t count, Body body, A *a, B *b, In *...in) {
#pragma omp parallel for simd schedule(static) if (parallel : count >= kParallelElements)
  for (int64_t i = 0; i < count; ++i) {
    const auto result = body(in[i]...);
    a[i] = result.first;
    b[i] = result.second;
  }
}

template <class Body, class A, class B, class C, class... In>
void loopThree(int64_t count, Body body, A *a, B *b, C *c, In *...in) {
#pragma omp parallel for simd schedule(static) if (parallel : count >= kParallelElements)
  for (int64_t i = 0; i < count; ++i) {
    const auto result = body(in[i]...);
    a[i] = result.first;
    b[i] = result.second;
    c[i] = result.third;
  }
}

template <class Body, class A, class B, class C, class D, class... In>
void loopFour(int64_t count, Body body, A *a, B *b, C *c, D *d, In *...in) {
#pragma omp parallel for simd schedule(static) if (parallel : count >= kParallelElements)
  for (int64_t i = 0; i < count; ++i) {
    const auto result = body(in[i]...);
    a[i] = result.first;
    b[i] = result.second;
    c[i] = result.third;
    d[i] = result.fourth;
  }
}

/// Whether a body takes all pointers but the first `Results`.
template <size_t Results, class Body, class... Elements> constexpr bool takes() {
  return []<size_t... I>(std::index_sequence<I...>) {
    using All = std::tuple<Elements...>;
    return std::is_invocable_v<Body, std::tuple_element_t<I + Results, All>...>;
  }
  (std::make_index_sequence<sizeof...(Elements) - Results>());
}

} // namespace detail

/// result[i] = body(operand[i]...) for i in [0, count). Pointers: the results (as many as the body
/// returns), then one per parameter of the body.
template <class Body, class... Elements>
void elementwise(const Run &, int64_t count, Body body, Elements *...pointers) {
  static_assert(sizeof...(Elements) >= 2, "a loop reads and writes");
  if constexpr (detail::takes<1, Body, std::remove_const_t<Elements>...>())
    detail::loopOne(count, body, pointers...);
  else if constexpr (detail::takes<2, Body, std::remove_const_t<Elements>...>())
    detail::loopTwo(count, body, pointers...);
  else if constexpr (detail::takes<3, Body, std::remove_const_t<Elements>...>())
    detail::loopThree(count, body, pointers...);
  else
    detail::loopFour(count, body, pointers...);
}

/// sum[i] = value[i], or sum[i] += value[i] where `add`.
template <class T>
void accumulate(const Run &run, int64_t count, T *sum, const T *value, bool add) {
  if (add)
    elementwise(
        run, count, [](T a, T b) { return a + b; }, sum, sum, value);
  else
    elementwise(
        run, count, [](T a) { return a; }, sum, value);
}

} // namespace pdc::runtime
