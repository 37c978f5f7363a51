#pragma once

#include "runtime/cuda/Lanes.h"
#include "runtime/kernels/OutsideRows.h"

#include <array>
#include <type_traits>
#include <utility>

/// Loops that generated code gives the body of: equally long arrays (`loop`), and arrays that are
/// repeated along dimensions or are parts of larger ones (`broadcast`). A thread computes four
/// neighbours, or eight where any array has 16 bits, which it reads and writes with 16-byte
/// accesses where they lie so. Results may be the same memory as operands, never overlap them
/// otherwise.
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
/// What a loop's body returns when it computes several results.
template <class A, class B> PDC_EITHER Results2<A, B> results(A a, B b) { return {a, b}; }
template <class A, class B, class C> PDC_EITHER Results3<A, B, C> results(A a, B b, C c) {
  return {a, b, c};
}

template <int Width, class T> PDC_EITHER Lanes<T, Width> repeated(T value) {
  Lanes<T, Width> values;
  for (T &each : values.at)
    each = value;
  return values;
}

/// An operand as long as the results.
template <class T> struct Elements {
  using Element = T;
  const T *data;
  template <int Width> PDC_EITHER Lanes<T, Width> group(int64_t i) const {
    return reinterpret_cast<const Lanes<T, Width> *>(data)[i];
  }
  PDC_EITHER T one(int64_t i) const { return data[i]; }
};

/// One number for all elements.
template <class T> struct Number {
  using Element = T;
  const T *data;
  template <int Width> PDC_EITHER Lanes<T, Width> group(int64_t) const {
    return repeated<Width>(*data);
  }
  PDC_EITHER T one(int64_t) const { return *data; }
};
template <class T> Number<T> number(const T *data) { return {data}; }

/// The sizes of the dimensions that are walked, the outermost first.
template <int64_t... Sizes> struct Extents {
  static constexpr int rank = sizeof...(Sizes);
  static constexpr std::array<int64_t, sizeof...(Sizes)> sizes = {Sizes...};
  static constexpr int64_t elements = (Sizes * ... * int64_t(1));
};

/// An array of a broadcast, `Offset` elements behind a pointer: elements from one index to the next
/// along each dimension, 0 where it is repeated.
template <class T, int64_t Offset, int64_t... Strides> struct Strided {
  using Element = std::remove_const_t<T>;
  T *data;
  static constexpr std::array<int64_t, sizeof...(Strides)> strides = {Strides...};

  /// Where element `i` of the row-major walk over the extents lies.
  template <int64_t... Sizes> PDC_EITHER static int64_t offset(Extents<Sizes...>, int64_t i) {
    constexpr int64_t sizes[] = {Sizes...}, steps[] = {Strides...};
    int64_t at = 0;
    for (int d = sizeof...(Sizes) - 1; d >= 0; --d) {
      at += i % sizes[d] * steps[d];
      i /= sizes[d];
    }
    return at;
  }
  /// Whether any `Width` neighbours from a multiple of it on lie in one aligned piece, or are one
  /// element: the last dimension holds whole groups, and all others start at one.
  template <int Width, int64_t... Sizes> static constexpr bool comesInGroups(Extents<Sizes...>) {
    constexpr int64_t sizes[] = {Sizes...}, steps[] = {Strides...};
    constexpr int last = sizeof...(Sizes) - 1;
    bool aligned = sizes[last] % Width == 0 && (steps[last] == 0 || steps[last] == 1) &&
                   (steps[last] == 0 || Offset % Width == 0);
    for (int d = 0; d < last; ++d)
      aligned = aligned && (steps[last] == 0 || steps[d] % Width == 0);
    return aligned;
  }
  template <int Width> PDC_EITHER Lanes<Element, Width> groupAt(int64_t at) const {
    constexpr int64_t steps[] = {Strides...};
    if constexpr (steps[sizeof...(Strides) - 1] == 0)
      return repeated<Width>(oneAt(at));
    else
      return *reinterpret_cast<const Lanes<Element, Width> *>(data + Offset + at);
  }
  PDC_EITHER Element oneAt(int64_t at) const { return data[Offset + at]; }
};
template <int64_t... Strides, class T> Strided<const T, 0, Strides...> strided(const T *data) {
  return {data};
}
template <int64_t Offset, int64_t... Strides, class T>
Strided<T, Offset, Strides...> part(T *data) {
  return {data};
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

/// Where results go: one, two or three arrays.
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
template <int Width, class Walked, class... Arrays> constexpr bool comeInGroups() {
  return (Arrays::template comesInGroups<Width>(Walked()) && ...);
}

template <class A> PDC_EITHER Sink1<A> sink(A a) { return {a}; }
template <class A, class B> PDC_EITHER Sink2<A, B> sink(A a, B b) { return {a, b}; }
template <class A, class B, class C> PDC_EITHER Sink3<A, B, C> sink(A a, B b, C c) {
  return {a, b, c};
}

/// `Width` elements from a multiple of it on; the last group may be short.
template <int Width, class Body, class Sink, class... In>
__device__ void computeGroup(int64_t group, int64_t count, const Body &body, const Sink &sink,
                             const In &...in) {
  if (group * Width + Width <= count) {
    sink.template group<Width>(group, body, in.template group<Width>(group)...);
    return;
  }
  for (int64_t i = group * Width; i < count; ++i)
    sink.one(i, body(wide(in.one(i))...));
}

#if defined(__CUDACC__) || defined(PDC_CUDA_THREADS)
template <int Width, class Body, class Sink, class... In>
__global__ void loopKernel(int64_t count, Body body, Sink sink, In... in) {
  computeGroup<Width>(globalThread(), count, body, sink, in...);
}

template <int Width, class Walked, class Body, class Sink, class... In>
__global__ void broadcastGroups(Body body, Sink sink, In... in) {
  const int64_t group = globalThread();
  if (group < Walked::elements / Width)
    sink.template group<Width>(group, body,
                               in.template groupAt<Width>(In::offset(Walked(), group * Width))...);
}

template <class Walked, class Body, class Sink, class... In>
__global__ void broadcastOnes(Body body, Sink sink, In... in) {
  const int64_t i = globalThread();
  if (i < Walked::elements)
    sink.one(i, body(wide(in.oneAt(In::offset(Walked(), i)))...));
}
#endif

template <class T> Elements<T> operand(const T *data) { return {data}; }
template <class T> Elements<T> operand(T *data) { return {data}; }
template <class T> Number<T> operand(Number<T> value) { return value; }

template <class Body, class Sink, class... In>
void startLoop(const Run &run, int64_t count, const Body &body, const Sink &sink, In... in) {
  constexpr int width = Sink::template neighbours<typename In::Element...>;
  launchOver(run, ceilDivide(count, width), loopKernel<width, Body, Sink, In...>, count, body, sink,
             in...);
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
template <class... Places> Into<Places...> into(Places... places) { return {places...}; }

/// result[i] = body(operand[i]...) for i in [0, count). Operands are pointers or `number(pointer)`,
/// one per parameter of the body.
template <class Body, class... Out, class... In>
void loop(const Run &run, int64_t count, Body body, Into<Out *...> results, In... in) {
  detail::startLoop(run, count, body, results.template sink<void>(), detail::operand(in)...);
}

/// results = body(operands...) at each index, row-major; operands are `strided<...>(pointer)` or
/// `part<...>(pointer)`. An operand with a result's own strides may be that result.
template <int64_t... Sizes, class Body, class... Out, class... In>
void broadcast(const Run &run, Extents<Sizes...> extents, Body body, Into<Out...> results,
               In... in) {
  using Walked = Extents<Sizes...>;
  const auto sink = results.template sink<Walked>();
  using Sink = std::remove_const_t<decltype(sink)>;
  constexpr int width = Sink::template neighbours<typename In::Element...>;
  if constexpr (detail::comeInGroups<width, Walked, Sink, In...>())
    launchOver(run, extents.elements / width,
               detail::broadcastGroups<width, Walked, Body, Sink, In...>, body, sink, in...);
  else if constexpr (detail::comeInGroups<kLanes, Walked, Sink, In...>())
    launchOver(run, extents.elements / kLanes,
               detail::broadcastGroups<kLanes, Walked, Body, Sink, In...>, body, sink, in...);
  else
    launchOver(run, extents.elements, detail::broadcastOnes<Walked, Body, Sink, In...>, body, sink,
               in...);
}

} // namespace pdc::runtime::cuda
