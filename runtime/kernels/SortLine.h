#pragma once

#include "runtime/kernels/TopOfLine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

/// TopK on the processor: an element and its place become one number, and such numbers are chosen
/// and sorted in the result's memory without a look at the elements.
namespace pdc::runtime {

/// Numbers `stride` apart, the results of a line.
struct PackedPlaces {
  uint64_t *first;
  int64_t stride;

  uint64_t &operator[](int64_t i) const { return first[i * stride]; }
};

/// What makes numbers of the elements of one line: smaller ones come first, equal ones do not
/// exist. A key stands above as many bits as places need.
struct LineKeys {
  uint64_t origin = 0; ///< subtracted from integers
  int keyBits = 0, placeBits = 0;
  bool largest = true;

  static constexpr uint64_t ascending(int64_t x) { return static_cast<uint64_t>(x) + (1ull << 63); }
  /// NaNs are one number, the largest, and zeros are one.
  static constexpr uint64_t ascending(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x == 0 ? 0.0f : x);
    const uint32_t ordered = bits ^ (bits >> 31 ? ~0u : 1u << 31);
    return x == x ? ordered : ~0u;
  }
  template <class T> constexpr uint64_t key(T x) const {
    const uint64_t distance = ascending(x) - origin, most = ~0ull >> (64 - keyBits);
    return largest ? most - distance : distance;
  }
  template <class T> constexpr uint64_t operator()(T x, int64_t place) const {
    return key(x) << placeBits | static_cast<uint64_t>(place);
  }
};

/// Nothing where numbers of 64 bits do not suffice: elements too far apart in a line too long.
template <class T>
std::optional<LineKeys> keysOfLine(const TopKFields &f, [[maybe_unused]] const T *line) {
  LineKeys keys{.keyBits = 32, .largest = f.largest != 0};
  keys.placeBits = static_cast<int>(std::bit_width(static_cast<uint64_t>(f.size - 1)));
  if constexpr (!std::is_same_v<T, float>) {
    T least = line[0], most = line[0];
    for (int64_t i = 1; i < f.size; ++i) {
      least = std::min(least, line[i * f.inner]);
      most = std::max(most, line[i * f.inner]);
    }
    keys.origin = LineKeys::ascending(least);
    keys.keyBits =
        std::max(1, static_cast<int>(std::bit_width(LineKeys::ascending(most) - keys.origin)));
  }
  return keys.keyBits + keys.placeBits <= 64 ? std::optional(keys) : std::nullopt;
}

/// Few numbers: each goes where it belongs among those before it.
inline void insertInOrder(PackedPlaces places, int64_t count) {
  for (int64_t i = 1; i < count; ++i) {
    const uint64_t value = places[i];
    int64_t at = i;
    for (; at > 0 && places[at - 1] > value; --at)
      places[at] = places[at - 1];
    places[at] = value;
  }
}

/// Sorts numbers that differ in the last `bits` bits at most: into buckets by their first eight,
/// each number straight to where its bucket is, and each bucket by what remains.
inline void sortPlaces(PackedPlaces places, int64_t count, int bits) {
  constexpr int64_t kFew = 48;
  constexpr int kDigit = 8;
  if (count <= kFew || bits <= 0)
    return insertInOrder(places, count);
  const int shift = std::max(bits - kDigit, 0);
  auto digit = [shift](uint64_t value) { return value >> shift & ((1u << kDigit) - 1); };
  // 1. Where buckets end; what is in order stays.
  std::array<int64_t, 1 << kDigit> next = {}, end;
  bool inOrder = true;
  uint64_t before = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t value = places[i];
    ++next[digit(value)];
    inOrder &= before <= value;
    before = value;
  }
  if (inOrder)
    return;
  int64_t begin = 0;
  for (size_t d = 0; d < end.size(); ++d)
    end[d] = begin += std::exchange(next[d], begin);
  // 2. Numbers go there in cycles.
  for (size_t d = 0; d < end.size(); ++d)
    while (next[d] < end[d]) {
      uint64_t value = places[next[d]];
      for (size_t to = digit(value); to != d; to = digit(value))
        std::swap(value, places[next[to]++]);
      places[next[d]++] = value;
    }
  // 3. What remains.
  begin = 0;
  for (int64_t behind : end) {
    if (behind - begin > 1)
      sortPlaces({&places[begin], places.stride}, behind - begin, shift);
    begin = behind;
  }
}

/// A heap's largest number is replaced.
inline void replaceLargest(PackedPlaces heap, int64_t size, uint64_t value, int64_t at = 0) {
  for (int64_t child = 2 * at + 1; child < size; child = 2 * at + 1) {
    child += child + 1 < size && heap[child] < heap[child + 1];
    if (heap[child] <= value)
      break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = value;
}

/// The `count` smallest numbers of a line, in any order, where they are few of it.
template <class T>
void chooseByHeap(const TopKFields &f, const LineKeys &keys, const T *line, PackedPlaces places) {
  for (int64_t i = f.count; i-- > 0;)
    replaceLargest(places, f.count, keys(line[i * f.inner], i), i);
  uint64_t most = places[0];
  for (int64_t i = f.count; i < f.size; ++i)
    if (const uint64_t value = keys(line[i * f.inner], i); value < most) {
      replaceLargest(places, f.count, value);
      most = places[0];
    }
}

/// The same of many in a long line, whose keys have less than 64 bits: finds the last key that is
/// taken, digit by digit, then all before it and of those equal to it the first.
template <class T>
void chooseByLastKey(const TopKFields &f, const LineKeys &keys, const T *line,
                     PackedPlaces places) {
  constexpr int kDigit = 11;
  int64_t left = f.count; // of the keys that begin as the last one does
  uint64_t last = 0;
  for (int bits = keys.keyBits; bits > 0;) {
    const int above = bits;
    bits = std::max(bits - kDigit, 0);
    std::array<int64_t, 1 << kDigit> counts = {};
    for (int64_t i = 0; i < f.size; ++i)
      if (const uint64_t key = keys.key(line[i * f.inner]); key >> above == last)
        ++counts[key >> bits & ((1u << kDigit) - 1) >> (kDigit - (above - bits))];
    uint64_t digit = 0;
    for (; left > counts[digit]; ++digit)
      left -= counts[digit];
    last = last << (above - bits) | digit;
  }
  int64_t taken = 0;
  for (int64_t i = 0; i < f.size && taken < f.count; ++i) {
    const uint64_t key = keys.key(line[i * f.inner]);
    if (key < last || (key == last && left-- > 0))
      places[taken++] = key << keys.placeBits | static_cast<uint64_t>(i);
  }
}

/// TopK of one of the lines, as topOfLine makes it.
template <class T> void sortLine(const TopKFields &f, int64_t number, const T *x, int64_t *y) {
  constexpr int64_t kLong = 4096, kSomeOf = 16;
  if (f.count == 0)
    return;
  const T *line = x + number / f.inner * f.size * f.inner + number % f.inner;
  int64_t *results = y + number / f.inner * f.count * f.inner + number % f.inner;
  const std::optional<LineKeys> keys = keysOfLine(f, line);
  if (!keys)
    return topOfLine(f, number, x, y);
  // An int64_t may be read and written as what has no sign.
  const PackedPlaces places{reinterpret_cast<uint64_t *>(results), f.inner};
  if (f.count == f.size)
    for (int64_t i = 0; i < f.size; ++i)
      places[i] = (*keys)(line[i * f.inner], i);
  else if (f.size >= kLong && f.count >= f.size / kSomeOf)
    chooseByLastKey(f, *keys, line, places);
  else
    chooseByHeap(f, *keys, line, places);
  sortPlaces(places, f.count, keys->keyBits + keys->placeBits);
  for (int64_t i = 0; i < f.count; ++i)
    places[i] &= (1ull << keys->placeBits) - 1;
}

} // namespace pdc::runtime
