#include "runtime/Dataset.h"
#include "runtime/Error.h"

#include <charconv>
#include <cmath>

/// What the options of data say.
namespace pdc::runtime {

constexpr const char *kTypeNames =
    "u8, u16, u32, u64, i8, i16, i32, i64, f16, bf16, f32, f64 or bool";

template <class Number> static std::optional<Number> numberIn(std::string_view text) {
  Number value{};
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

static std::optional<Scalar> typeIn(std::string text) {
  for (char &letter : text) {
    if (letter >= 'A' && letter <= 'Z')
      return std::nullopt;
    if (letter >= 'a' && letter <= 'z')
      letter = char(letter - 'a' + 'A');
  }
  return scalarNamed(text);
}

/// Takes what `field` says into `spec`. Returns what was expected of it, or nothing where it says
/// so; `isField` where it is one.
static std::string takeField(DataSpec &spec, const std::string &field, bool &isField) {
  const size_t equals = field.find('=');
  const std::string key = field.substr(0, equals),
                    text = equals == std::string::npos ? "" : field.substr(equals + 1);
  isField = key == "mean" || key == "std" || key == "type" || key == "skip";
  if (key == "mean") {
    const auto value = numberIn<float>(text);
    if (!value || !std::isfinite(*value))
      return "a finite number";
    spec.mean = *value;
    spec.scales = true;
  } else if (key == "std") {
    const auto value = numberIn<float>(text);
    if (!value || !std::isfinite(*value) || *value <= 0 || !std::isfinite(1 / *value))
      return "a finite number above 0 that numbers can be divided by, at least 1.2e-38";
    spec.deviation = *value;
    spec.scales = true;
  } else if (key == "type") {
    spec.type = typeIn(text);
    if (!spec.type)
      return std::string("one of ") + kTypeNames;
  } else if (key == "skip") {
    const auto value = numberIn<int64_t>(text);
    if (!value || *value < 0)
      return "a whole number of at least 0";
    spec.skipped = *value;
  }
  return "";
}

DataSpec parseDataSpec(const std::string &text) {
  DataSpec spec;
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error("found '", text, "', expected INPUT=FILE[,mean=M][,std=S][,type=T][,skip=N]");
  spec.input = text.substr(0, equals);
  spec.file = text.substr(equals + 1);
  // A file name may hold commas: only what looks like a field is one.
  for (bool isField = true; isField;) {
    const size_t comma = spec.file.rfind(',');
    const std::string field = comma == std::string::npos ? "" : spec.file.substr(comma + 1);
    const std::string expected = takeField(spec, field, isField);
    if (!expected.empty())
      throw Error("found '", text, "', expected in '", field, "' ", expected);
    if (isField)
      spec.file.resize(comma);
  }
  if (spec.file.empty())
    throw Error("found '", text, "', expected the name of a file behind '", spec.input, "='");
  if (spec.skipped > 0 && !spec.type)
    throw Error("found '", text, "', expected with skip= the type of bare numbers, as type=u16");
  return spec;
}

} // namespace pdc::runtime
