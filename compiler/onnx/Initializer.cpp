#include "compiler/onnx/Model.h"
#include "compiler/onnx/TensorProto.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>

namespace pdc {

namespace {

/// A value that the compiler itself looks at (a shape, axes, a ratio) is small.
constexpr int64_t maximumConstantElements = int64_t(1) << 22;

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

} // namespace

std::string readBytes(const Initializer &initializer) {
  if (initializer.fill)
    throw Error("initializer '" + initializer.name + "' is one repeated value and has no bytes");
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

} // namespace pdc
