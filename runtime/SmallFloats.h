#pragma once

#include <bit>
#include <cstdint>

/// The two 16-bit floating-point types as they are stored. Numbers are rounded to the nearest one,
/// halves to the even one, as IEEE 754 and ONNX's Cast do.
namespace pdc::runtime {

/// IEEE 754's binary16: 5 bits of exponent, 10 of fraction.
struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  explicit constexpr Float16(float value) : bits(rounded(value)) {}
  explicit constexpr operator float() const {
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    const uint32_t sign = uint32_t(bits & 0x8000) << 16, size = bits & 0x7fff;
    if (size >= 0x7c00)
      return std::bit_cast<float>(sign | 0x7f800000 | size << 13);
    if (size >= 0x400)
      return std::bit_cast<float>(sign | ((size << 13) + kBias));
    const float small = static_cast<float>(size) * 0x1p-24f;
    return sign ? -small : small;
#endif
  }
  bool operator==(const Float16 &) const = default;

private:
  static constexpr uint32_t kBias = uint32_t(127 - 15) << 23; ///< between the two exponents

  static constexpr uint16_t rounded(float value) {
#ifdef __CUDA_ARCH__
    uint16_t nearest;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(nearest) : "f"(value));
    return nearest;
#else
    const auto whole = std::bit_cast<uint32_t>(value);
    const uint32_t sign = whole >> 16 & 0x8000, size = whole & 0x7fffffff;
    if (size > 0x7f800000)
      return static_cast<uint16_t>(sign | 0x7e00);
    if (size >= 0x477ff000) // 65520, half a step above the largest one
      return static_cast<uint16_t>(sign | 0x7c00);
    if (size >= 0x38800000) // 2^-14, the smallest one with all its bits
      return static_cast<uint16_t>(sign | (size - kBias + 0xfff + (size >> 13 & 1)) >> 13);
    // Numbers around 1/2 have the step of the small ones, 2^-24.
    const float shifted = std::bit_cast<float>(size) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
#endif
  }
};

/// The upper half of an f32.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit constexpr BFloat16(float value) : bits(rounded(value)) {}
  explicit constexpr operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
  bool operator==(const BFloat16 &) const = default;

private:
  static constexpr uint16_t rounded(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint16_t nearest;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(nearest) : "f"(value));
    return nearest;
#else
    const auto whole = std::bit_cast<uint32_t>(value);
    const bool isNan = (whole & 0x7fffffff) > 0x7f800000;
    return static_cast<uint16_t>(isNan ? whole >> 16 | 0x40
                                       : (whole + 0x7fff + (whole >> 16 & 1)) >> 16);
#endif
  }
};

} // namespace pdc::runtime
