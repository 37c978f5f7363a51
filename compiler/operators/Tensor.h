#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace pdc {

enum class ElementType : uint8_t { f32, f64, f16, bf16, i64, i32, i8, u8, boolean };

std::string_view toString(ElementType element);
int64_t bytesPerElement(ElementType element);
bool isFloatingPoint(ElementType element);

/// Element type and static shape. A scalar has an empty shape.
struct TensorType {
  ElementType element = ElementType::f32;
  std::vector<int64_t> shape;

  bool operator==(const TensorType &) const = default;
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t elementCount() const;
  int64_t bytes() const { return elementCount() * bytesPerElement(element); }
  /// As in "f32[32,16,14,14]".
  std::string toString() const;
};

/// The integer of an element. Bounds such as "to the end" exceed what a double tells apart: they become
/// the nearest int64_t, NaN becomes 0.
int64_t toInteger(double element);

/// A number as an element of that type: truncated for one of whole numbers, of which one with fewer
/// than 64 bits keeps the lowest, and 0 or 1 for a boolean.
double toElement(ElementType element, double number);

/// A value for constant evaluation and for the interpreter: row-major, each element as a double
/// (exact for integers up to 2^53, which shapes and labels never exceed).
struct Tensor {
  TensorType type;
  std::vector<double> data;

  static Tensor zeros(TensorType type);
  static Tensor scalar(ElementType element, double value);
  static Tensor vector(const std::vector<int64_t> &values);
  std::vector<int64_t> toIntegers() const;
};

/// An ONNX attribute after import: integers and floats are widened.
using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>, Tensor>;

/// The attributes of a node, by ONNX name. The getters throw Error when the kind differs.
class Attributes {
public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, Attribute>> values)
      : values(values) {}

  bool has(std::string_view name) const;
  void set(std::string name, Attribute value) {
    values.insert_or_assign(std::move(name), std::move(value));
  }
  void erase(std::string_view name);
  const Attribute *find(std::string_view name) const;

  int64_t integer(std::string_view name, int64_t otherwise) const;
  double number(std::string_view name, double otherwise) const;
  std::string string(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> integers(std::string_view name, std::vector<int64_t> otherwise = {}) const;
  const Tensor *tensor(std::string_view name) const;

  auto begin() const { return values.begin(); }
  auto end() const { return values.end(); }
  bool empty() const { return values.empty(); }

private:
  std::map<std::string, Attribute, std::less<>> values;
};

} // namespace pdc
