#include "compiler/onnx/Safetensors.h"

#include "compiler/onnx/TensorProto.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

namespace pdc {

using nlohmann::json;

namespace {

constexpr std::pair<std::string_view, ElementType> elementNames[] = {
    {"F32", ElementType::f32},   {"F64", ElementType::f64}, {"F16", ElementType::f16},
    {"BF16", ElementType::bf16}, {"I64", ElementType::i64}, {"I32", ElementType::i32},
    {"I8", ElementType::i8},     {"U8", ElementType::u8},   {"BOOL", ElementType::boolean}};

std::string_view nameOf(ElementType element) {
  for (auto [name, candidate] : elementNames)
    if (candidate == element)
      return name;
  throw Error("unknown element type");
}

ElementType elementNamed(const std::string &text, const std::string &where) {
  for (auto [name, element] : elementNames)
    if (name == text)
      return element;
  throw Error(where + ": element type '" + text + "' is not supported");
}

bool isStored(const Initializer &initializer) {
  return !initializer.fill && isFloatingPoint(initializer.type.element);
}

/// The tensors of the file, in its order.
std::map<std::string, const Initializer *> storedOnes(const Model &model) {
  std::map<std::string, const Initializer *> tensors;
  for (const auto &[name, initializer] : model.initializers)
    if (isStored(initializer))
      tensors[name] = &initializer;
  if (model.training)
    for (const auto &[name, state] : model.training->states)
      if (!tensors.emplace(name, &state).second)
        throw Error("initializer '" + name +
                    "': an optimizer state has this name; rename the tensor");
  return tensors;
}

/// The header, padded so that the data begins at a multiple of eight.
std::string headerOf(const Model &model) {
  json header = json::object();
  uint64_t offset = 0;
  for (const auto &[name, tensor] : storedOnes(model)) {
    header[name] = {{"dtype", nameOf(tensor->type.element)},
                    {"shape", tensor->type.shape},
                    {"data_offsets", {offset, offset + tensor->type.bytes()}}};
    offset += tensor->type.bytes();
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

void copyBytes(const Initializer &initializer, std::ostream &out) {
  // What is held is no large file, and is converted whole.
  if (initializer.file.empty() && !initializer.draw) {
    const std::string converted = initializer.stored ? readBytes(initializer) : "";
    const std::string &bytes = initializer.stored ? converted : initializer.bytes;
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return;
  }
  constexpr uint64_t chunk = uint64_t(1) << 20;
  for (uint64_t done = 0; done < initializer.length; done += chunk) {
    Initializer part = initializer;
    part.offset += done;
    part.length = std::min(chunk, initializer.length - done);
    std::string bytes = readBytes(part);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}

uint64_t readHeaderLength(std::istream &file, uint64_t size, const std::string &name) {
  unsigned char bytes[8];
  if (size < 8 || !file.read(reinterpret_cast<char *>(bytes), 8))
    throw Error(name + ": not a safetensors file: shorter than its header");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | bytes[i];
  constexpr uint64_t limit = uint64_t(256) << 20;
  if (length > size - 8 || length > limit)
    throw Error(name + ": not a safetensors file, or cut off: its header is said to have " +
                std::to_string(length) + " bytes of " + std::to_string(size));
  return length;
}

std::vector<int64_t> wholeNumbers(const json &entry, const char *field, const std::string &where) {
  constexpr uint64_t most = uint64_t(1) << 40;
  std::vector<int64_t> numbers;
  for (const json &number : entry.at(field)) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > most)
      throw Error(where + ": field '" + field + "' holds " + number.dump() +
                  ", expected whole numbers from 0 to 2^40");
    numbers.push_back(number.get<int64_t>());
  }
  return numbers;
}

StoredTensor readEntry(const json &entry, uint64_t begin, uint64_t size, const std::string &where) {
  StoredTensor tensor;
  tensor.type.element = elementNamed(entry.at("dtype").get<std::string>(), where);
  tensor.type.shape = wholeNumbers(entry, "shape", where);
  std::vector<int64_t> offsets = wholeNumbers(entry, "data_offsets", where);
  tensor.length = checkedElementCount(tensor.type, where) * bytesPerElement(tensor.type.element);
  if (offsets.size() != 2 || offsets[0] > offsets[1] ||
      static_cast<uint64_t>(offsets[1]) > size - begin)
    throw Error(where + ": its data lies outside of the file");
  if (static_cast<uint64_t>(offsets[1] - offsets[0]) != tensor.length)
    throw Error(where + ": " + tensor.type.toString() + " needs " + std::to_string(tensor.length) +
                " bytes, found " + std::to_string(offsets[1] - offsets[0]));
  tensor.offset = begin + static_cast<uint64_t>(offsets[0]);
  return tensor;
}

} // namespace

std::map<std::string, StoredTensor> readSafetensors(const std::filesystem::path &path) {
  std::string name = path.string();
  std::error_code error;
  uint64_t size = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file)
    throw Error(name + ": cannot be opened for reading");
  std::string header(readHeaderLength(file, size, name), '\0');
  if (!file.read(header.data(), static_cast<std::streamsize>(header.size())))
    throw Error(name + ": cannot be read");
  std::map<std::string, StoredTensor> tensors;
  try {
    const json entries = json::parse(header);
    for (const auto &[key, entry] : entries.items())
      if (key != "__metadata__")
        tensors[key] = readEntry(entry, 8 + header.size(), size, name + ": tensor '" + key + "'");
  } catch (const json::exception &) {
    throw Error(name +
                ": not a safetensors file: its header is no valid JSON of the expected form");
  }
  uint64_t end = 8 + header.size();
  for (const auto &[key, tensor] : tensors)
    end = std::max(end, tensor.offset + tensor.length);
  if (end != size)
    throw Error(name + ": has " + std::to_string(size - end) +
                " bytes behind the last tensor of its header; it is damaged: take another copy");
  return tensors;
}

std::string readBytes(const std::filesystem::path &path, const StoredTensor &tensor) {
  Initializer place{
      path.filename().string(), tensor.type, {}, {}, path, tensor.offset, tensor.length};
  return readBytes(place);
}

void writeWeights(const Model &model, const std::filesystem::path &path) {
  std::string header = headerOf(model);
  std::filesystem::path unfinished = path;
  unfinished += ".unfinished";
  {
    std::ofstream out(unfinished, std::ios::binary | std::ios::trunc);
    for (uint64_t length = header.size(), i = 0; i < 8; ++i)
      out.put(static_cast<char>(length >> (8 * i)));
    out << header;
    for (const auto &[name, tensor] : storedOnes(model))
      copyBytes(*tensor, out);
    if (!out.flush())
      throw Error(unfinished.string() + ": cannot be written");
  }
  std::error_code error;
  std::filesystem::rename(unfinished, path, error);
  if (error)
    throw Error(path.string() + ": cannot be written: " + error.message());
}

} // namespace pdc
