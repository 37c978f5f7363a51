#pragma once

#include "runtime/cuda/Lanes.h"
#include "runtime/kernels/OutsideRows.h"

#include <array>
#include <type_traits>
#include <utility>

/// Loops that generated code gives the body of: equally long arrays (`loop`), and operands that are
/// repeated along dimensions (`broadcast`). A thread computes four neighbours, or eight where any
/// array has 16 bits, which it reads and writes with 16-byte accesses where they lie so. Results
/// may be the same memory as operands, never overlap them otherwise.
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

/// An operand of a broadcast: elements from one index to the next along each dimension, 0 where it
/// is repeated.
template <class T, int64_t... Strides> struct Strided {
  using Element = T;
  const T *data;
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
    bool aligned = sizes[last] % Width == 0 && (steps[last] == 0 || steps[last] == 1);
    for (int d = 0; d < last; ++d)
      aligned = aligned && (steps[last] == 0 || steps[d] % Width == 0);
    return aligned;
  }
  template <int Width> PDC_EITHER Lanes<T, Width> groupAt(int64_t at) const {
    constexpr int64_t steps[] = {Strides...};
    if constexpr (steps[sizeof...(Strides) - 1] == 0)
      return repeated<Width>(data[at]);
    else
      return *reinterpret_cast<const Lanes<T, Width> *>(data + at);
  }
};
template <int64_t... Strides, class T> Strided<T, Strides...> strided(const T *data) {
  return {data};
}

namespace detail {

/// What a body computes with: f32 for what is stored in 16 bits.
template <class T> PDC_EITHER T wide(T value) { return value; }
PDC_EITHER inline float wide(BFloat16 value) { return static_cast<float>(value); }
PDC_EITHER inline float wide(Float16 value) { return static_cast<float>(value); }

template <class... Arrays>
inline constexpr int kNeighbours = ((sizeof(Arrays) == 2) || ...) ? 2 * kLanes : kLanes;

/// Where results go: one, two or three arrays.
template <class A> struct Sink1 {
  A *a;
  template <class... Elements> static constexpr int neighbours = kNeighbours<A, Elements...>;
  template <int Width, class Body, class... In>
  PDC_EITHER void group(int64_t i, const Body &body, const Lanes<In, Width> &...in) const {
    Lanes<A, Width> y;
    for (int lane = 0; lane < Width; ++lane)
      y.at[lane] = static_cast<A>(body(wide(in.at[lane])...));
    reinterpret_cast<Lanes<A, Width> *>(a)[i] = y;
  }
  template <class Value> PDC_EITHER void one(int64_t i, const Value &value) const {
    a[i] = static_cast<A>(value);
  }
};
template <class A, class B> struct Sink2 {
  A *a;
  B *b;
  template <class... Elements> static constexpr int neighbours = kNeighbours<A, B, Elements...>;
  template <int Width, class Body, class... In>
  PDC_EITHER void group(int64_t i, const Body &body, const Lanes<In, Width> &...in) const {
    Lanes<A, Width> first;
    Lanes<B, Width> second;
    for (int lane = 0; lane < Width; ++lane) {
      const auto y = body(wide(in.at[lane])...);
      first.at[lane] = static_cast<A>(y.first);
      second.at[lane] = static_cast<B>(y.second);
    }
    reinterpret_cast<Lanes<A, Width> *>(a)[i] = first;
    reinterpret_cast<Lanes<B, Width> *>(b)[i] = second;
  }
  template <class Value> PDC_EITHER void one(int64_t i, const Value &value) const {
    a[i] = static_cast<A>(value.first);
    b[i] = static_cast<B>(value.second);
  }
};
template <class A, class B, class C> struct Sink3 {
  A *a;
  B *b;
  C *c;
  template <class... Elements> static constexpr int neighbours = kNeighbours<A, B, C, Elements...>;
  template <int Width, class Body, class... In>
  PDC_EITHER void group(int64_t i, const Body &body, const Lanes<In, Width> &...in) const {
    Lanes<A, Width> first;
    Lanes<B, Width> second;
    Lanes<C, Width> third;
    for (int lane = 0; lane < Width; ++lane) {
      const auto y = body(wide(in.at[lane])...);
      first.at[lane] = static_cast<A>(y.first);
      second.at[lane] = static_cast<B>(y.second);
      third.at[lane] = static_cast<C>(y.third);
    }
    reinterpret_cast<Lanes<A, Width> *>(a)[i] = first;
    reinterpret_cast<Lanes<B, Width> *>(b)[i] = second;
    reinterpret_cast<Lanes<C, Width> *>(c)[i] = third;
  }
  template <class Value> PDC_EITHER void one(int64_t i, const Value &value) const {
    a[i] = static_cast<A>(value.first);
    b[i] = static_cast<B>(value.second);
    c[i] = static_cast<C>(value.third);
  }
};

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
    sink.one(i, body(wide(in.data[In::offset(Walked(), i)])...));
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

/// result[i] = body(operand[i]...) for i in [0, count). Operands are pointers or `number(pointer)`,
/// one per parameter of the body.
template <class Body, class A, class... In>
void loop(const Run &run, int64_t count, Body body, detail::Sink1<A> sink, In... in) {
  detail::startLoop(run, count, body, sink, detail::operand(in)...);
}
template <class Body, class A, class B, class... In>
void loop(const Run &run, int64_t count, Body body, detail::Sink2<A, B> sink, In... in) {
  detail::startLoop(run, count, body, sink, detail::operand(in)...);
}
template <class Body, class A, class B, class C, class... In>
void loop(const Run &run, int64_t count, Body body, detail::Sink3<A, B, C> sink, In... in) {
  detail::startLoop(run, count, body, sink, detail::operand(in)...);
}

/// What a loop writes.
template <class A> detail::Sink1<A> into(A *a) { return {a}; }
template <class A, class B> detail::Sink2<A, B> into(A *a, B *b) { return {a, b}; }
template <class A, class B, class C> detail::Sink3<A, B, C> into(A *a, B *b, C *c) {
  return {a, b, c};
}

/// y = body(operands...) at each index, row-major; operands are `strided<...>(pointer)`. An operand
/// with y's own strides may be y.
template <int64_t... Sizes, class Body, class A, class... In>
void broadcast(const Run &run, Extents<Sizes...> extents, Body body, detail::Sink1<A> sink,
               In... in) {
  using Walked = Extents<Sizes...>;
  using Sink = detail::Sink1<A>;
  constexpr int width = Sink::template neighbours<typename In::Element...>;
  if constexpr ((In::template comesInGroups<width>(Walked()) && ...))
    launchOver(run, extents.elements / width,
               detail::broadcastGroups<width, Walked, Body, Sink, In...>, body, sink, in...);
  else if constexpr ((In::template comesInGroups<kLanes>(Walked()) && ...))
    launchOver(run, extents.elements / kLanes,
               detail::broadcastGroups<kLanes, Walked, Body, Sink, In...>, body, sink, in...);
  else
    launchOver(run, extents.elements, detail::broadcastOnes<Walked, Body, Sink, In...>, body, sink,
               in...);
}

} // namespace pdc::runtime::cuda
