#include "runtime/Dataset.h"
#include "runtime/Error.h"
#include "runtime/SmallFloats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

/// How numbers of files become those of inputs.
namespace pdc::runtime {

template <class T> static T load(const std::byte *from, bool bigEndian) {
  std::byte bytes[sizeof(T)];
  for (size_t i = 0; i < sizeof(T); ++i)
    bytes[i] = from[bigEndian ? sizeof(T) - 1 - i : i];
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

static float scaledValue(float value, float unit, bool scaled, float mean, float deviation) {
  if (unit != 1)
    value /= unit;
  return scaled ? (value - mean) / deviation : value;
}

/// Whether a number of a file is none in f32: NaN, or finite there and beyond the largest one here.
/// Infinities are data, as those of masks.
template <class From> static bool isLost(From value, float result) {
  constexpr float kMost = std::numeric_limits<float>::max();
  if constexpr (std::is_integral_v<From>)
    return !(std::abs(result) <= kMost);
  else if constexpr (std::is_same_v<From, double>)
    return !(std::abs(result) <= kMost) & !(std::abs(value) > std::numeric_limits<double>::max());
  else
    return !(std::abs(result) <= kMost) & !(std::abs(float(value)) > kMost);
}

/// Returns the first element that is lost, or -1. A loop of vector code where `value` and `scaled`
/// allow it.
template <class Value, class Scaled>
static int64_t convertAll(Value value, float *to, int64_t elements, Scaled scaled) {
  int lost = 0;
#pragma omp simd reduction(| : lost)
  for (int64_t i = 0; i < elements; ++i) {
    to[i] = scaled(float(value(i)));
    lost |= isLost(value(i), to[i]);
  }
  if (!lost)
    return -1;
  int64_t first = 0;
  while (!isLost(value(first), to[first]))
    ++first;
  return first;
}

template <class From> Dataset::Convert Dataset::toFloats() {
  if (sizeof(From) == 1 && std::is_unsigned_v<From>)
    return [](const Source &source, const std::byte *from, std::byte *to, int64_t elements) {
      auto *target = reinterpret_cast<float *>(to);
      for (int64_t i = 0; i < elements; ++i)
        target[i] = source.byteValues[size_t(from[i])];
      return int64_t(-1);
    };
  return [](const Source &source, const std::byte *from, std::byte *to, int64_t elements) {
    auto *target = reinterpret_cast<float *>(to);
    if (!source.data.tensor.bigEndian && !source.scaled)
      return convertAll(
          [=](int64_t i) {
            From value;
            std::memcpy(&value, from + i * int64_t(sizeof(From)), sizeof(From));
            return value;
          },
          target, elements, [](float value) { return value; });
    return convertAll([=, big = source.data.tensor.bigEndian](
                          int64_t i) { return load<From>(from + i * sizeof(From), big); },
                      target, elements,
                      [&source](float value) {
                        return scaledValue(value, 1, source.scaled, source.mean, source.deviation);
                      });
  };
}

template <class From> Dataset::Convert Dataset::conversionFrom(ElementType to) {
  if (to == ElementType::f32)
    return toFloats<From>();
  if constexpr (std::is_integral_v<From>) {
    auto integers = []<class To>(To) -> Convert {
      return [](const Source &source, const std::byte *from, std::byte *to, int64_t elements) {
        auto *target = reinterpret_cast<To *>(to);
        for (int64_t i = 0; i < elements; ++i) {
          From value = load<From>(from + i * sizeof(From), source.data.tensor.bigEndian);
          if (!std::in_range<To>(value))
            return i;
          target[i] = To(value);
        }
        return int64_t(-1);
      };
    };
    if (to == ElementType::i64)
      return integers(int64_t());
    if (to == ElementType::i32)
      return integers(int32_t());
    if (to == ElementType::u8)
      return integers(uint8_t());
  }
  return nullptr;
}

/// Calls `use` with a number of the type.
template <class Use> static auto withNumberOf(Scalar type, Use use) {
  switch (type) {
  case Scalar::i8:
    return use(int8_t());
  case Scalar::i16:
    return use(int16_t());
  case Scalar::i32:
    return use(int32_t());
  case Scalar::i64:
    return use(int64_t());
  case Scalar::u16:
    return use(uint16_t());
  case Scalar::u32:
    return use(uint32_t());
  case Scalar::u64:
    return use(uint64_t());
  case Scalar::f32:
    return use(float());
  case Scalar::f64:
    return use(double());
  case Scalar::f16:
    return use(Float16());
  case Scalar::bf16:
    return use(BFloat16());
  case Scalar::flag:
  case Scalar::u8:
    break;
  }
  return use(uint8_t());
}

Dataset::Convert Dataset::conversion(Scalar from, ElementType to) {
  return withNumberOf(from, [to]<class From>(From) { return conversionFrom<From>(to); });
}

std::string Dataset::numberText(const TensorView &tensor, const std::byte *value) {
  return withNumberOf(tensor.type, [&]<class From>(From) {
    const From number = load<From>(value, tensor.bigEndian);
    std::ostringstream text;
    if constexpr (std::is_integral_v<From>)
      text << +number;
    else if constexpr (std::is_same_v<From, double>)
      text << (std::isnan(number) ? std::abs(number) : number);
    else
      text << (std::isnan(float(number)) ? std::abs(float(number)) : float(number));
    return text.str();
  });
}

void Dataset::fillByteValues(Source &source) const {
  const Scalar type = source.data.tensor.type;
  if (source.memory->element != ElementType::f32 || (type != Scalar::u8 && type != Scalar::flag))
    return;
  for (int byte = 0; byte < 256; ++byte) {
    const float value = scaledValue(type == Scalar::flag ? byte != 0 : float(byte), source.unit,
                                    source.scaled, source.mean, source.deviation);
    if (!std::isfinite(value))
      throw Error(option(), " ", source.memory->name, "=", source.data.file->path(),
                  ": mean=", source.mean, " and std=", source.deviation, " scale ", byte, " to ",
                  value, ", expected a finite number; give other ones");
    source.byteValues.push_back(value);
  }
}

} // namespace pdc::runtime
