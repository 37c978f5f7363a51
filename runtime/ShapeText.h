#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace pdc::runtime {

/// "[64x3x7x7]"
inline std::string shapeText(std::span<const int64_t> shape) {
  std::string text = "[";
  for (int64_t size : shape) {
    if (text.size() > 1)
      text += 'x';
    text += std::to_string(size);
  }
  text += ']';
  return text;
}

} // namespace pdc::runtime
