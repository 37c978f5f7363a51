#include "runtime/Safetensors.h"

#include "runtime/Error.h"
#include "runtime/ShapeText.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace pdc::runtime {

using Json = nlohmann::json;

int64_t scalarBytes(Scalar type) {
  static constexpr int64_t kBytes[] = {1, 1, 2, 4, 8, 4, 8, 2, 2, 1, 2, 4, 8};
  return kBytes[int(type)];
}

static constexpr std::pair<const char *, Scalar> kTypes[] = {
    {"U8", Scalar::u8},     {"I8", Scalar::i8},     {"I16", Scalar::i16}, {"I32", Scalar::i32},
    {"I64", Scalar::i64},   {"F32", Scalar::f32},   {"F64", Scalar::f64}, {"F16", Scalar::f16},
    {"BF16", Scalar::bf16}, {"BOOL", Scalar::flag}, {"U16", Scalar::u16}, {"U32", Scalar::u32},
    {"U64", Scalar::u64}};

const char *scalarName(Scalar type) {
  return std::ranges::find(kTypes, type, &std::pair<const char *, Scalar>::second)->first;
}

std::optional<Scalar> scalarNamed(std::string_view name) {
  const auto *known = std::ranges::find(kTypes, name, &std::pair<const char *, Scalar>::first);
  return known == std::end(kTypes) ? std::nullopt : std::optional(known->second);
}

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
  const char *needs =
      "needs dtype, and in shape and data_offsets whole numbers; the file is damaged";
  // JSON's other numbers are undefined as int64_t.
  auto whole = [&](const Json &number) {
    constexpr auto most = uint64_t(std::numeric_limits<int64_t>::max());
    if (!number.is_number_integer() ||
        (number.is_number_unsigned() && number.get<uint64_t>() > most))
      throw refuse(needs);
    return number.get<int64_t>();
  };
  TensorView view;
  int64_t begin = 0, end = 0;
  try {
    std::string type = entry.at("dtype");
    const std::optional<Scalar> known = scalarNamed(type);
    if (!known)
      throw refuse("dtype " + type +
                   " is not supported; write it as F16, BF16, F32, F64, U8 or an integer");
    view.type = *known;
    for (const Json &size : entry.at("shape").get_ref<const Json::array_t &>())
      view.shape.push_back(whole(size));
    begin = whole(entry.at("data_offsets").at(0));
    end = whole(entry.at("data_offsets").at(1));
  } catch (const Json::exception &) {
    throw refuse(needs);
  }
  int64_t count = elementCount(view.shape);
  if (begin < 0 || end < begin || end > int64_t(data.size()))
    throw refuse("data_offsets lie outside the file; it is cut off or damaged");
  if (count < 0 || count > int64_t(data.size()) || count * scalarBytes(view.type) != end - begin)
    throw refuse("shape " + shapeText(view.shape) + " does not fit " + std::to_string(end - begin) +
                 " bytes; the file is damaged");
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
                " bytes of ", bytes.size(), "; it is cut off or damaged: take another copy");
  const char *text = reinterpret_cast<const char *>(bytes.data()) + 8;
  Json header = Json::parse(text, text + length, nullptr, false);
  if (!header.is_object())
    throw Error(file.path(), ": not a safetensors file: its header is not a JSON object; it is ",
                "damaged: take another copy");
  std::map<std::string, TensorView> tensors;
  std::span<const std::byte> data = bytes.subspan(8 + length);
  int64_t end = 0;
  for (const auto &[name, entry] : header.items())
    if (name != "__metadata__") {
      const TensorView &view = tensors[name] = readEntry(file.path(), name, entry, data);
      end = std::max(end, view.data - data.data() + view.bytes);
    }
  if (end != int64_t(data.size()))
    throw Error(file.path(), ": has ", int64_t(data.size()) - end,
                " bytes behind the last tensor of its header; it is damaged: take another copy");
  return tensors;
}

int64_t writeSafetensors(const std::string &path, const std::vector<TensorToWrite> &tensors) {
  // 1. The header, padded so that the data is aligned to 8 bytes.
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  int64_t offset = 0;
  for (const TensorToWrite &tensor : tensors) {
    int64_t bytes = elementCount(tensor.shape) * scalarBytes(tensor.type);
    header[tensor.name] = {{"dtype", scalarName(tensor.type)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + bytes}}};
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
