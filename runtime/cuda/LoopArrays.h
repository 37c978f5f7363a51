#pragma once

#include "runtime/cuda/Lanes.h"

#include <array>
#include <type_traits>

/// What loops read, and how they walk.
namespace pdc::runtime::cuda {

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

} // namespace pdc::runtime::cuda
