#include "codegen/ConstantsFile.h"

#include "codegen/CppText.h"
#include "compiler/Error.h"
#include "compiler/ir/Conversion.h"

#include <nlohmann/json.hpp>

#include <cstring>
#include <map>

using namespace mlir;

namespace pdc {

template <class T> static std::string bytesAs(const Tensor &tensor) {
  std::vector<T> values;
  for (double value : tensor.data)
    values.push_back(std::is_integral_v<T> ? static_cast<T>(toInteger(value))
                                           : static_cast<T>(value));
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

/// The element's name in safetensors, and the little-endian bytes.
static std::pair<const char *, std::string> stored(const Tensor &tensor, StringRef name) {
  switch (tensor.type.element) {
  case ElementType::f32:
    return {"F32", bytesAs<float>(tensor)};
  case ElementType::i64:
    return {"I64", bytesAs<int64_t>(tensor)};
  case ElementType::i32:
    return {"I32", bytesAs<int32_t>(tensor)};
  case ElementType::u8:
  case ElementType::boolean:
    return {"U8", bytesAs<uint8_t>(tensor)};
  default:
    throw Error("constant " + commentText(name) + " is " + tensor.type.toString() +
                ", which the runtime does not load");
  }
}

std::string constantsFile(ModuleOp module) {
  std::map<std::string, DenseElementsAttr> constants;
  module.walk([&](ir::MemoryOp memory) {
    if (auto elements = dyn_cast_or_null<DenseElementsAttr>(memory.getInitialAttr()))
      constants.emplace(memory.getSymName().str(), elements);
  });
  if (constants.empty())
    return "";
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto &[name, elements] : constants) {
    Tensor tensor = toTensor(elements);
    auto [element, bytes] = stored(tensor, name);
    // Wider elements lie on multiples of their size.
    data.append((8 - data.size() % 8) % 8, '\0');
    header[name] = {{"dtype", element},
                    {"shape", tensor.type.shape},
                    {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data += bytes;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i)
    length[i] = static_cast<char>(text.size() >> (8 * i));
  return length + text + data;
}

} // namespace pdc
