#include "compiler/onnx/Model.h"
#include "compiler/onnx/TensorProto.h"
#include "compiler/operators/AttentionShape.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

namespace pdc {

namespace {

/// What the compiler itself looks at: shapes, masks, tables of whole numbers.
constexpr int64_t maximumConstantElements = int64_t(1) << 26;

double halfToDouble(uint16_t bits) {
  int exponent = (bits >> 10) & 31;
  int fraction = bits & 1023;
  double magnitude = exponent == 0    ? std::ldexp(fraction, -24)
                     : exponent == 31 ? (fraction ? NAN : INFINITY)
                                      : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

template <typename Stored> Stored load(const char *bytes) {
  Stored value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

double elementAt(ElementType element, const char *bytes, const std::string &where) {
  switch (element) {
  case ElementType::f32:
    return load<float>(bytes);
  case ElementType::f64:
    return load<double>(bytes);
  case ElementType::f16:
    return halfToDouble(load<uint16_t>(bytes));
  case ElementType::bf16:
    return std::bit_cast<float>(uint32_t(load<uint16_t>(bytes)) << 16);
  case ElementType::i64:
    return toElement(load<int64_t>(bytes), where);
  case ElementType::i32:
    return load<int32_t>(bytes);
  case ElementType::i8:
    return load<int8_t>(bytes);
  case ElementType::u8:
    return load<uint8_t>(bytes);
  case ElementType::boolean:
    return load<uint8_t>(bytes) ? 1 : 0;
  }
  throw Error("unknown element type");
}

std::string readFile(const Initializer &initializer) {
  std::ifstream stream(initializer.file, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(initializer.offset));
  std::string bytes(initializer.length, '\0');
  if (!stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) && !bytes.empty())
    throw Error("initializer '" + initializer.name + "': cannot read " +
                std::to_string(initializer.length) + " bytes at " +
                std::to_string(initializer.offset) + " of " + initializer.file.string());
  return bytes;
}

/// Uniform in (0, 1), from a place in the stream of a seed (splitmix64).
double uniformAt(uint64_t seed, uint64_t place) {
  uint64_t bits = seed * 0xd1342543de82ef95 + place * 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  bits ^= bits >> 31;
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

double drawnAt(const Draw &draw, uint64_t element) {
  double first = uniformAt(draw.seed, 2 * element);
  if (!draw.normal)
    return draw.first + (draw.second - draw.first) * first;
  constexpr double circle = 6.283185307179586;
  double angle = circle * uniformAt(draw.seed, 2 * element + 1);
  return draw.first + draw.second * std::sqrt(-2 * std::log(first)) * std::cos(angle);
}

/// The elements from byte `offset` on.
std::string drawBytes(const Initializer &initializer) {
  std::string bytes(initializer.length, '\0');
  uint64_t begin = initializer.offset / sizeof(float), count = bytes.size() / sizeof(float);
  for (uint64_t i = 0; i < count; ++i) {
    auto value = static_cast<float>(drawnAt(*initializer.draw, begin + i));
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
  return bytes;
}

} // namespace

ElementType computedElement(ElementType element) {
  return isFloatingPoint(element) ? ElementType::f32 : element;
}

void makeComputed(Initializer &initializer) {
  const ElementType element = initializer.type.element;
  initializer.type.element = computedElement(element);
  if (initializer.type.element != element)
    initializer.stored = element;
}

/// The nearest number of f32 that is finite, and zero, only where this is: bounds such as the least
/// number of f64 are multiplied by zeros, and divided by.
static float narrowed(double value) {
  constexpr double most = std::numeric_limits<float>::max(),
                   least = std::numeric_limits<float>::min();
  if (!std::isfinite(value))
    return static_cast<float>(value);
  const auto nearest = static_cast<float>(std::clamp(value, -most, most));
  return nearest == 0 && value != 0 ? static_cast<float>(std::copysign(least, value)) : nearest;
}

static std::string converted(const std::string &bytes, ElementType from, const std::string &where) {
  const int64_t width = bytesPerElement(from);
  std::string result(bytes.size() / width * sizeof(float), '\0');
  for (size_t i = 0; i < result.size() / sizeof(float); ++i) {
    const float value = narrowed(elementAt(from, bytes.data() + i * width, where));
    std::memcpy(result.data() + i * sizeof value, &value, sizeof value);
  }
  return result;
}

std::string readBytes(const Initializer &initializer) {
  if (initializer.stored) {
    Initializer asStored = initializer;
    asStored.type.element = *initializer.stored;
    asStored.stored.reset();
    return converted(readBytes(asStored), *initializer.stored, initializer.name);
  }
  if (initializer.fill)
    throw Error("initializer '" + initializer.name + "' is one repeated value and has no bytes");
  if (initializer.draw)
    return drawBytes(initializer);
  return initializer.file.empty() ? initializer.bytes : readFile(initializer);
}

Tensor readTensor(const Initializer &initializer) {
  int64_t count = initializer.type.elementCount();
  if (count > maximumConstantElements)
    throw Error("initializer '" + initializer.name + "': " + initializer.type.toString() +
                " is too large for a value that must be known at compile time");
  Tensor tensor{initializer.type, {}};
  if (initializer.fill) {
    tensor.data.assign(count, *initializer.fill);
    return tensor;
  }
  std::string bytes = readBytes(initializer);
  int64_t width = bytesPerElement(initializer.type.element);
  tensor.data.reserve(count);
  for (int64_t i = 0; i < count; ++i)
    tensor.data.push_back(elementAt(initializer.type.element, bytes.data() + i * width,
                                    "initializer '" + initializer.name + "'"));
  return tensor;
}

Tensor readAsStored(Initializer initializer) {
  initializer.type.element = initializer.stored.value_or(initializer.type.element);
  initializer.stored.reset();
  return readTensor(initializer);
}

MaskKind kindOfMask(const Initializer &initializer) {
  const TensorType &type = initializer.type;
  if (!isFloatingPoint(type.element) || type.rank() < 2 || type.shape.back() < 2 ||
      type.elementCount() > maximumConstantElements || initializer.fill || initializer.draw)
    return MaskKind::none;
  const std::string bytes = readBytes(initializer);
  const int64_t width = bytesPerElement(type.element);
  bool hasZeros = false, hasOnes = false, hides = false;
  for (int64_t i = 0; i < type.elementCount(); ++i) {
    const double value = elementAt(type.element, bytes.data() + i * width, initializer.name);
    hasZeros |= value == 0;
    hasOnes |= value == 1;
    hides |= value <= kHidden;
    if (!(value == 0 || value == 1 || value <= kHidden))
      return MaskKind::none;
  }
  if (!hasZeros || hasOnes == hides)
    return MaskKind::none;
  return hasOnes ? MaskKind::flags : MaskKind::hides;
}

} // namespace pdc
