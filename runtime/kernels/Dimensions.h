#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace pdc::runtime {

/// One integer per dimension: a shape, strides, pads. A generated stage lists dozens of them; as
/// plain values they compile in half the time of std::vector and allocate nothing. The compiler
/// refuses more than kMost, which is oneDNN's limit too.
class Dimensions {
public:
  static constexpr size_t kMost = 12;

  constexpr Dimensions() = default;
  constexpr Dimensions(std::initializer_list<int64_t> list) {
    for (int64_t value : list)
      push_back(value);
  }
  template <class List>
  requires std::is_same_v<std::remove_cvref_t<decltype(*std::declval<const List &>().begin())>,
                          int64_t>
  constexpr Dimensions(const List &list) {
    for (int64_t value : list)
      push_back(value);
  }

  constexpr void push_back(int64_t value) {
    assert(count < kMost);
    values[count++] = value;
  }
  constexpr void pop_back() {
    assert(count > 0);
    --count;
  }

  constexpr size_t size() const { return count; }
  constexpr bool empty() const { return count == 0; }
  constexpr const int64_t *data() const { return values; }
  constexpr const int64_t *begin() const { return values; }
  constexpr const int64_t *end() const { return values + count; }
  constexpr int64_t operator[](size_t d) const {
    assert(d < count);
    return values[d];
  }
  constexpr int64_t &operator[](size_t d) {
    assert(d < count);
    return values[d];
  }
  constexpr int64_t back() const { return (*this)[count - 1]; }

private:
  size_t count = 0;
  int64_t values[kMost] = {};
};

} // namespace pdc::runtime
