#pragma once

#include "runtime/cuda/LoopResults.h"
#include "runtime/cuda/Power.h"
#include "runtime/kernels/OutsideRows.h"

#include <utility>

/// Loops that generated code gives the body of: equally long arrays (`loop`), and arrays that are
/// repeated along dimensions or are parts of larger ones (`broadcast`). A thread computes four
/// neighbours, or eight where any array has 16 bits, which it reads and writes with 16-byte
/// accesses where they lie so. Results may be the same memory as operands, never overlap them
/// otherwise.
namespace pdc::runtime::cuda {

namespace detail {

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
