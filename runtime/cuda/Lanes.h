#pragma once

#include "runtime/SmallFloats.h"
#include "runtime/cuda/Launch.h"

#include <bit>

/// Neighbours that a thread reads and writes with one access, of at most 16 bytes. What is stored
/// in 16 bits is computed with in f32.
namespace pdc::runtime::cuda {

template <class T, int Count>
struct alignas(sizeof(T) * Count > 16 ? 16 : sizeof(T) * Count) Lanes {
  T at[Count];
};

/// As many as fit into an access of f32; tensors lie so that every fourth element begins one.
inline constexpr int kLanes = 4;

/// Rows that a thread computes at once: what they share is read once, and what it reads of each is
/// under way before it writes any. (To keep the memory of an H200 busy a processor needs some 25
/// KiB under way, which is what 4.8 TB/s bring in 700 ns; 2,048 threads with 8 bytes each have 16.)
inline constexpr int kRowsTogether = 4;

/// Lanes as they lie in memory, in words: numbers of 16 bits would be taken apart where they
/// arrive, which waits for them, and not where they are used.
template <class T, int Count> struct Packed {
  using Word = std::conditional_t<sizeof(T) * Count % 4 == 0, uint32_t, T>;
  Lanes<Word, int(sizeof(T) * Count / sizeof(Word))> words;
};

template <int Count, class T> PDC_EITHER Packed<T, Count> fetch(const T *from) {
  return *reinterpret_cast<const Packed<T, Count> *>(from);
}

template <int Count, class T>
PDC_EITHER Lanes<float, Count> widened(const Packed<T, Count> &packed) {
  const auto stored = std::bit_cast<Lanes<T, Count>>(packed);
  Lanes<float, Count> values;
  for (int lane = 0; lane < Count; ++lane)
    values.at[lane] = static_cast<float>(stored.at[lane]);
  return values;
}

template <class T, int Count>
PDC_EITHER Packed<T, Count> packed(const Lanes<float, Count> &values) {
  Lanes<T, Count> stored;
  for (int lane = 0; lane < Count; ++lane)
    stored.at[lane] = static_cast<T>(values.at[lane]);
  return std::bit_cast<Packed<T, Count>>(stored);
}

template <int Count, class T> PDC_EITHER Lanes<float, Count> load(const T *from) {
  return widened(fetch<Count>(from));
}

template <int Count, class T, class Value>
PDC_EITHER void store(T *to, const Lanes<Value, Count> &values) {
  Lanes<T, Count> stored;
  for (int lane = 0; lane < Count; ++lane)
    stored.at[lane] = static_cast<T>(values.at[lane]);
  *reinterpret_cast<Lanes<T, Count> *>(to) = stored;
}

template <int Count>
PDC_EITHER Lanes<float, Count> operator+(Lanes<float, Count> a, const Lanes<float, Count> &b) {
  for (int lane = 0; lane < Count; ++lane)
    a.at[lane] += b.at[lane];
  return a;
}
template <int Count>
PDC_EITHER Lanes<float, Count> operator*(Lanes<float, Count> a, const Lanes<float, Count> &b) {
  for (int lane = 0; lane < Count; ++lane)
    a.at[lane] *= b.at[lane];
  return a;
}

/// What a column, or a channel, has of its own: body.numbers<Width>(column), read once for all rows
/// that a thread has.
template <int Width, class Body> PDC_EITHER auto numbersOf(const Body &body, int64_t column) {
  struct None {};
  if constexpr (requires { body.template numbers<Width>(column); })
    return body.template numbers<Width>(column);
  else
    return None();
}

/// The same, of a sample's.
template <int Width, class Body>
PDC_EITHER auto numbersOf(const Body &body, int64_t sample, int64_t column) {
  if constexpr (requires { body.template numbers<Width>(sample, column); })
    return body.template numbers<Width>(sample, column);
  else
    return numbersOf<Width>(body, column);
}

} // namespace pdc::runtime::cuda
