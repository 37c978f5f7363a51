#include "compiler/operators/Tensor.h"
#include "compiler/Error.h"

#include <cmath>
#include <limits>

namespace pdc {

/// More elements than any constant or interpreted tensor needs; a hostile shape stops here.
static constexpr int64_t kMostElements = int64_t(1) << 30;

std::string_view toString(ElementType element) {
  switch (element) {
  case ElementType::f32:
    return "f32";
  case ElementType::f64:
    return "f64";
  case ElementType::f16:
    return "f16";
  case ElementType::bf16:
    return "bf16";
  case ElementType::i64:
    return "i64";
  case ElementType::i32:
    return "i32";
  case ElementType::i8:
    return "i8";
  case ElementType::u8:
    return "u8";
  case ElementType::boolean:
    return "bool";
  }
  return "unknown";
}

int64_t bytesPerElement(ElementType element) {
  switch (element) {
  case ElementType::f64:
  case ElementType::i64:
    return 8;
  case ElementType::f32:
  case ElementType::i32:
    return 4;
  case ElementType::f16:
  case ElementType::bf16:
    return 2;
  case ElementType::i8:
  case ElementType::u8:
  case ElementType::boolean:
    return 1;
  }
  return 1;
}

bool isFloatingPoint(ElementType element) {
  return element == ElementType::f32 || element == ElementType::f64 ||
         element == ElementType::f16 || element == ElementType::bf16;
}

int64_t TensorType::elementCount() const {
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size < 0)
      throw Error("negative dimension in shape " + toString());
    // The bytes must fit too.
    if (size != 0 && count > std::numeric_limits<int64_t>::max() / 8 / size)
      throw Error("shape " + toString() + " has more elements than can be counted");
    count *= size;
  }
  return count;
}

std::string TensorType::toString() const {
  std::string text(pdc::toString(element));
  text += '[';
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? "," : "") + std::to_string(shape[i]);
  return text + ']';
}

Tensor Tensor::zeros(TensorType type) {
  int64_t count = type.elementCount();
  if (count > kMostElements)
    throw Error("a constant of type " + type.toString() + " is too large to be computed");
  return {std::move(type), std::vector<double>(count)};
}

Tensor Tensor::scalar(ElementType element, double value) { return {{element, {}}, {value}}; }

Tensor Tensor::vector(const std::vector<int64_t> &values) {
  return {{ElementType::i64, {static_cast<int64_t>(values.size())}},
          {values.begin(), values.end()}};
}

int64_t toInteger(double element) {
  if (std::isnan(element))
    return 0;
  if (element >= 0x1p63)
    return std::numeric_limits<int64_t>::max();
  if (element < -0x1p63)
    return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(element);
}

double toElement(ElementType element, double number) {
  switch (element) {
  case ElementType::boolean:
    return number != 0;
  case ElementType::i32:
    return static_cast<int32_t>(toInteger(number));
  case ElementType::i8:
    return static_cast<int8_t>(toInteger(number));
  case ElementType::u8:
    return static_cast<uint8_t>(toInteger(number));
  case ElementType::i64:
    return std::trunc(number);
  default:
    return number;
  }
}

std::vector<int64_t> Tensor::toIntegers() const {
  std::vector<int64_t> integers;
  for (double element : data)
    integers.push_back(toInteger(element));
  return integers;
}

template <class T>
static const T *get(const Attributes &attributes, std::string_view name, const char *expected) {
  const Attribute *attribute = attributes.find(name);
  if (!attribute)
    return nullptr;
  if (const T *value = std::get_if<T>(attribute))
    return value;
  throw Error("attribute '" + std::string(name) + "' is not " + expected);
}

bool Attributes::has(std::string_view name) const { return find(name); }

void Attributes::erase(std::string_view name) {
  if (auto it = values.find(name); it != values.end())
    values.erase(it);
}

const Attribute *Attributes::find(std::string_view name) const {
  auto it = values.find(name);
  return it == values.end() ? nullptr : &it->second;
}

int64_t Attributes::integer(std::string_view name, int64_t otherwise) const {
  const int64_t *value = get<int64_t>(*this, name, "an integer");
  return value ? *value : otherwise;
}

double Attributes::number(std::string_view name, double otherwise) const {
  const double *value = get<double>(*this, name, "a number");
  return value ? *value : otherwise;
}

std::string Attributes::string(std::string_view name, std::string_view otherwise) const {
  const std::string *value = get<std::string>(*this, name, "a string");
  return value ? *value : std::string(otherwise);
}

std::vector<int64_t> Attributes::integers(std::string_view name,
                                          std::vector<int64_t> otherwise) const {
  const auto *value = get<std::vector<int64_t>>(*this, name, "a list of integers");
  return value ? *value : otherwise;
}

const Tensor *Attributes::tensor(std::string_view name) const {
  return get<Tensor>(*this, name, "a tensor");
}

} // namespace pdc
