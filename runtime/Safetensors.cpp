#include "runtime/Safetensors.h"

#include "runtime/Error.h"
#include "runtime/ShapeText.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace pdc::runtime {

using Json = nlohmann::json;

int64_t scalarBytes(Scalar type) {
  static constexpr int64_t kBytes[] = {1, 1, 2, 4, 8, 4, 8};
  return kBytes[int(type)];
}

static constexpr std::pair<const char *, Scalar> kTypes[] = {
    {"U8", Scalar::u8},   {"I8", Scalar::i8},   {"I16", Scalar::i16}, {"I32", Scalar::i32},
    {"I64", Scalar::i64}, {"F32", Scalar::f32}, {"F64", Scalar::f64}, {"BOOL", Scalar::u8}};

int64_t elementCount(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(count, size, &count))
      return -1;
  return count;
}

static TensorView readEntry(const std::string &path, const std::string &name, const Json &entry,
                            std::span<const std::byte> data) {
  auto refuse = [&](const std::string &why) { return Error(path, ": tensor '", name, "': ", why); };
  TensorView view;
  int64_t begin = 0, end = 0;
  try {
    std::string type = entry.at("dtype");
    auto known = std::find_if(std::begin(kTypes), std::end(kTypes),
                              [&](const auto &pair) { return pair.first == type; });
    if (known == std::end(kTypes))
      throw refuse("dtype " + type + " is not supported; write it as F32, F64, U8 or an integer");
    view.type = known->second;
    view.shape = entry.at("shape").get<std::vector<int64_t>>();
    const Json &offsets = entry.at("data_offsets");
    begin = offsets.at(0).get<int64_t>();
    end = offsets.at(1).get<int64_t>();
  } catch (const Json::exception &) {
    throw refuse("needs dtype, shape and data_offsets");
  }
  int64_t count = elementCount(view.shape);
  if (begin < 0 || end < begin || end > int64_t(data.size()))
    throw refuse("data_offsets lie outside the file; it is cut off or damaged");
  if (count < 0 || count > int64_t(data.size()) || count * scalarBytes(view.type) != end - begin)
    throw refuse("shape " + shapeText(view.shape) + " does not fit " + std::to_string(end - begin) +
                 " bytes");
  view.data = data.data() + begin;
  view.bytes = end - begin;
  return view;
}

std::map<std::string, TensorView> readSafetensors(const FileBytes &file) {
  std::span<const std::byte> bytes = file.bytes();
  uint64_t length = 0;
  if (bytes.size() >= 8)
    std::memcpy(&length, bytes.data(), 8);
  if (bytes.size() < 8 || length > bytes.size() - 8)
    throw Error(file.path(), ": not a safetensors file: its header would take ", length,
                " bytes of ", bytes.size());
  const char *text = reinterpret_cast<const char *>(bytes.data()) + 8;
  Json header = Json::parse(text, text + length, nullptr, false);
  if (!header.is_object())
    throw Error(file.path(), ": not a safetensors file: its header is not a JSON object");
  std::map<std::string, TensorView> tensors;
  for (const auto &[name, entry] : header.items())
    if (name != "__metadata__")
      tensors[name] = readEntry(file.path(), name, entry, bytes.subspan(8 + length));
  return tensors;
}

int64_t writeSafetensors(const std::string &path, const std::vector<TensorToWrite> &tensors) {
  // 1. The header, padded so that the data is aligned to 8 bytes.
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  int64_t offset = 0;
  for (const TensorToWrite &tensor : tensors) {
    const char *type = "";
    for (const auto &[name, scalar] : kTypes)
      if (scalar == tensor.type && !*type)
        type = name;
    int64_t bytes = elementCount(tensor.shape) * scalarBytes(tensor.type);
    header[tensor.name] = {
        {"dtype", type}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  // 2. The file.
  FILE *file = std::fopen(path.c_str(), "wbe");
  if (!file)
    throw Error(path, ": cannot be written: ", std::strerror(errno));
  uint64_t length = text.size();
  bool good =
      std::fwrite(&length, 8, 1, file) == 1 && std::fwrite(text.data(), 1, length, file) == length;
  for (const TensorToWrite &tensor : tensors)
    tensor.give([&](std::span<const std::byte> piece) {
      good = good && std::fwrite(piece.data(), 1, piece.size(), file) == piece.size();
    });
  good = good && std::fflush(file) == 0 && fsync(fileno(file)) == 0;
  if (std::fclose(file) != 0 || !good)
    throw Error(path, ": cannot be written: ", std::strerror(errno));
  return int64_t(8 + length) + offset;
}

} // namespace pdc::runtime
