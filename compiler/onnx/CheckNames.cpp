#include "compiler/onnx/CheckNames.h"

#include "compiler/Error.h"

#include <nlohmann/json.hpp>

namespace pdc {

/// As the files that hold names judge it, which are JSON.
static bool isUtf8(const std::string &name) {
  try {
    nlohmann::json(name).dump();
    return true;
  } catch (const nlohmann::json::exception &) {
    return false;
  }
}

/// Other bytes than ASCII's letters and signs by their numbers: messages hold no others.
static std::string escaped(const std::string &name) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f)
      text += c;
    else
      text += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
  }
  return text;
}

void checkName(const std::string &name, const std::string &what) {
  const bool hasNul = name.find('\0') != std::string::npos;
  if (hasNul || !isUtf8(name))
    throw Error(what + " '" + escaped(name) + "': its name " +
                (hasNul ? "holds a zero byte" : "is not UTF-8") +
                ", expected text; rename it where the model is exported");
  if (name == "__metadata__")
    throw Error(what + " '" + name +
                "': this name is reserved in weights files; rename it where the model is exported");
}

} // namespace pdc
