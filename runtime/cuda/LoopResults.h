#pragma once

#include "runtime/cuda/LoopArrays.h"

/// What loops write: one to four arrays, or parts of some.
namespace pdc::runtime::cuda {

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
/// What a loop's body returns when it computes several results.
template <class A, class B> PDC_EITHER Results2<A, B> results(A a, B b) { return {a, b}; }
template <class A, class B, class C> PDC_EITHER Results3<A, B, C> results(A a, B b, C c) {
  return {a, b, c};
}

template <class A, class B, class C, class D>
PDC_EITHER Results4<A, B, C, D> results(A a, B b, C c, D d) {
  return {a, b, c, d};
}

namespace detail {

/// What a body computes with: f32 for what is stored in 16 bits.
template <class T> PDC_EITHER T wide(T value) { return value; }
PDC_EITHER inline float wide(BFloat16 value) { return static_cast<float>(value); }
PDC_EITHER inline float wide(Float16 value) { return static_cast<float>(value); }

template <class... Arrays>
inline constexpr int kNeighbours = ((sizeof(Arrays) == 2) || ...) ? 2 * kLanes : kLanes;

/// A result of a loop, as long as its operands.
template <class T> struct Whole {
  using Element = T;
  T *data;
  template <int Width> PDC_EITHER void putGroup(int64_t i, const Lanes<T, Width> &values) const {
    reinterpret_cast<Lanes<T, Width> *>(data)[i] = values;
  }
  PDC_EITHER void put(int64_t i, T value) const { data[i] = value; }
  template <int, class Walked> static constexpr bool comesInGroups(Walked) { return true; }
};

/// A result of a broadcast that lies apart.
template <class Walked, class T, int64_t Offset, int64_t... Strides> struct Placed {
  using Element = T;
  using Part = Strided<T, Offset, Strides...>;
  T *data;
  template <int Width> PDC_EITHER void putGroup(int64_t i, const Lanes<T, Width> &values) const {
    const int64_t at = Offset + Part::offset(Walked(), i * Width);
    *reinterpret_cast<Lanes<T, Width> *>(data + at) = values;
  }
  PDC_EITHER void put(int64_t i, T value) const {
    data[Offset + Part::offset(Walked(), i)] = value;
  }
  template <int Width, class Extents> static constexpr bool comesInGroups(Extents walked) {
    return Part::template comesInGroups<Width>(walked);
  }
};

template <class Walked, class T> Whole<T> placed(T *data) { return {data}; }
template <class Walked, class T, int64_t Offset, int64_t... Strides>
Placed<Walked, T, Offset, Strides...> placed(Strided<T, Offset, Strides...> part) {
  return {part.data};
}

/// Where results go: one to four arrays.
template <class A> struct Sink1 {
  A a;
  template <class... Elements>
  static constexpr int neighbours = kNeighbours<typename A::Element, Elements...>;
  template <int Width, class Walked> static constexpr bool comesInGroups(Walked walked) {
    return A::template comesInGroups<Width>(walked);
  }
  template <int Width, class Body, class... In>
  PDC_EITHER void group(int64_t i, const Body &body, const Lanes<In, Width> &...in) const {
    Lanes<typename A::Element, Width> y;
    for (int lane = 0; lane < Width; ++lane)
      y.at[lane] = static_cast<typename A::Element>(body(wide(in.at[lane])...));
    a.putGroup(i, y);
  }
  template <class Value> PDC_EITHER void one(int64_t i, const Value &value) const {
    a.put(i, static_cast<typename A::Element>(value));
  }
};
template <class A, class B> struct Sink2 {
  A a;
  B b;
  template <class... Elements>
  static constexpr int neighbours =
      kNeighbours<typename A::Element, typename B::Element, Elements...>;
  template <int Width, class Walked> static constexpr bool comesInGroups(Walked walked) {
    return A::template comesInGroups<Width>(walked) && B::template comesInGroups<Width>(walked);
  }
  template <int Width, class Body, class... In>
  PDC_EITHER void group(int64_t i, const Body &body, const Lanes<In, Width> &...in) const {
    Lanes<typename A::Element, Width> first;
    Lanes<typename B::Element, Width> second;
    for (int lane = 0; lane < Width; ++lane) {
      const auto y = body(wide(in.at[lane])...);
      first.at[lane] = static_cast<typename A::Element>(y.first);
      second.at[lane] = static_cast<typename B::Element>(y.second);
    }
    a.putGroup(i, first);
    b.putGroup(i, second);
  }
  template <class Value> PDC_EITHER void one(int64_t i, const Value &value) const {
    a.put(i, static_cast<typename A::Element>(value.first));
    b.put(i, static_cast<typename B::Element>(value.second));
  }
};
template <class A, class B, class C> struct Sink3 {
  A a;
  B b;
  C c;
  template <class... Elements>
  static constexpr int neighbours =
      kNeighbours<typename A::Element, typename B::Element, typename C::Element, Elements...>;
  template <int Width, class Walked> static constexpr bool comesInGroups(Walked walked) {
    return A::template comesInGroups<Width>(walked) && B::template comesInGroups<Width>(walked) &&
           C::template comesInGroups<Width>(walked);
  }
  template <int Width, class Body, class... In>
  PDC_EITHER void group(int64_t i, const Body &body, const Lanes<In, Width> &...in) const {
    Lanes<typename A::Element, Width> first;
    Lanes<typename B::Element, Width> second;
    Lanes<typename C::Element, Width> third;
    for (int lane = 0; lane < Width; ++lane) {
      const auto y = body(wide(in.at[lane])...);
      first.at[lane] = static_cast<typename A::Element>(y.first);
      second.at[lane] = static_cast<typename B::Element>(y.second);
      third.at[lane] = static_cast<typename C::Element>(y.third);
    }
    a.putGroup(i, first);
    b.putGroup(i, second);
    c.putGroup(i, third);
  }
  template <class Value> PDC_EITHER void one(int64_t i, const Value &value) const {
    a.put(i, static_cast<typename A::Element>(value.first));
    b.put(i, static_cast<typename B::Element>(value.second));
    c.put(i, static_cast<typename C::Element>(value.third));
  }
};
template <class A, class B, class C, class D> struct Sink4 {
  A a;
  B b;
  C c;
  D d;
  template <class... Elements>
  static constexpr int neighbours =
      kNeighbours<typename A::Element, typename B::Element, typename C::Element,
                  typename D::Element, Elements...>;
  template <int Width, class Walked> static constexpr bool comesInGroups(Walked walked) {
    return Sink2<A, B>::template comesInGroups<Width>(walked) &&
           Sink2<C, D>::template comesInGroups<Width>(walked);
  }
  template <int Width, class Body, class... In>
  PDC_EITHER void group(int64_t i, const Body &body, const Lanes<In, Width> &...in) const {
    Lanes<typename A::Element, Width> first;
    Lanes<typename B::Element, Width> second;
    Lanes<typename C::Element, Width> third;
    Lanes<typename D::Element, Width> fourth;
    for (int lane = 0; lane < Width; ++lane) {
      const auto y = body(wide(in.at[lane])...);
      first.at[lane] = static_cast<typename A::Element>(y.first);
      second.at[lane] = static_cast<typename B::Element>(y.second);
      third.at[lane] = static_cast<typename C::Element>(y.third);
      fourth.at[lane] = static_cast<typename D::Element>(y.fourth);
    }
    a.putGroup(i, first);
    b.putGroup(i, second);
    c.putGroup(i, third);
    d.putGroup(i, fourth);
  }
  template <class Value> PDC_EITHER void one(int64_t i, const Value &value) const {
    a.put(i, static_cast<typename A::Element>(value.first));
    b.put(i, static_cast<typename B::Element>(value.second));
    c.put(i, static_cast<typename C::Element>(value.third));
    d.put(i, static_cast<typename D::Element>(value.fourth));
  }
};

template <int Width, class Walked, class... Arrays> constexpr bool comeInGroups() {
  return (Arrays::template comesInGroups<Width>(Walked()) && ...);
}

template <class A> PDC_EITHER Sink1<A> sink(A a) { return {a}; }
template <class A, class B> PDC_EITHER Sink2<A, B> sink(A a, B b) { return {a, b}; }
template <class A, class B, class C> PDC_EITHER Sink3<A, B, C> sink(A a, B b, C c) {
  return {a, b, c};
}
template <class A, class B, class C, class D>
PDC_EITHER Sink4<A, B, C, D> sink(A a, B b, C c, D d) {
  return {a, b, c, d};
}

} // namespace detail

/// Where a loop's results go: pointers, or in a broadcast `part<...>(pointer)`.
template <class... Places> struct Into;
template <class A> struct Into<A> {
  A a;
  template <class Walked> auto sink() const { return detail::sink(detail::placed<Walked>(a)); }
};
template <class A, class B> struct Into<A, B> {
  A a;
  B b;
  template <class Walked> auto sink() const {
    return detail::sink(detail::placed<Walked>(a), detail::placed<Walked>(b));
  }
};
template <class A, class B, class C> struct Into<A, B, C> {
  A a;
  B b;
  C c;
  template <class Walked> auto sink() const {
    return detail::sink(detail::placed<Walked>(a), detail::placed<Walked>(b),
                        detail::placed<Walked>(c));
  }
};
template <class A, class B, class C, class D> struct Into<A, B, C, D> {
  A a;
  B b;
  C c;
  D d;
  template <class Walked> auto sink() const {
    return detail::sink(detail::placed<Walked>(a), detail::placed<Walked>(b),
                        detail::placed<Walked>(c), detail::placed<Walked>(d));
  }
};
template <class... Places> Into<Places...> into(Places... places) { return {places...}; }

} // namespace pdc::runtime::cuda
