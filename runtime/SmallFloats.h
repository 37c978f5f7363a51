#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

/// The two 16-bit floating-point types as they are stored. Numbers are rounded to the nearest one,
/// halves to the even one, as IEEE 754 and ONNX's Cast do.
namespace pdc::runtime {

/// IEEE 754's binary16: 5 bits of exponent, 10 of fraction.
struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  explicit Float16(float value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const float size = std::abs(value);
    if (std::isnan(value))
      bits = sign | 0x7e00;
    else if (size >= 65520) // half a step above the largest one
      bits = sign | 0x7c00;
    else {
      const int exponent = std::max(size > 0 ? std::ilogb(size) : -14, -14);
      const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
      bits = static_cast<uint16_t>(sign | (((exponent + 14) << 10) + steps));
    }
  }
  explicit operator float() const {
    const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
    const float sign = bits & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 0x1f)
      return fraction ? std::numeric_limits<float>::quiet_NaN()
                      : sign * std::numeric_limits<float>::infinity();
    const int steps = exponent ? 0x400 + fraction : fraction;
    return sign * std::ldexp(static_cast<float>(steps), std::max(exponent, 1) - 25);
  }
  bool operator==(const Float16 &) const = default;
};

/// The upper half of an f32.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto whole = std::bit_cast<uint32_t>(value);
    bits = static_cast<uint16_t>(std::isnan(value) ? whole >> 16 | 0x40
                                                   : (whole + 0x7fff + (whole >> 16 & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
  bool operator==(const BFloat16 &) const = default;
};

} // namespace pdc::runtime
