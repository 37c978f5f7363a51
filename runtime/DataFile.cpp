#include "runtime/DataFile.h"

#include "runtime/Error.h"
#include "runtime/ShapeText.h"

#include <algorithm>
#include <cstring>

namespace pdc::runtime {

static bool isIdx(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && bytes[0] == std::byte{0} && bytes[1] == std::byte{0} &&
         std::to_integer<int>(bytes[2]) >= 8 && std::to_integer<int>(bytes[2]) <= 14 &&
         std::to_integer<int>(bytes[3]) >= 1 && std::to_integer<int>(bytes[3]) <= 8;
}

static TensorView readIdx(const FileBytes &file) {
  std::span<const std::byte> bytes = file.bytes();
  TensorView view;
  int code = std::to_integer<int>(bytes[2]), rank = std::to_integer<int>(bytes[3]);
  switch (code) {
  case 8:
    view.type = Scalar::u8;
    break;
  case 9:
    view.type = Scalar::i8;
    break;
  case 11:
    view.type = Scalar::i16;
    break;
  case 12:
    view.type = Scalar::i32;
    break;
  case 13:
    view.type = Scalar::f32;
    break;
  case 14:
    view.type = Scalar::f64;
    break;
  default:
    throw Error(file.path(), ": IDX element type ", code, " is not known; expected 8, 9, 11 to 14");
  }
  size_t header = 4 + 4 * size_t(rank);
  if (bytes.size() < header)
    throw Error(file.path(), ": the IDX header of ", rank, " dimensions is cut off");
  for (int d = 0; d < rank; ++d) {
    int64_t size = 0;
    for (int i = 0; i < 4; ++i)
      size = size << 8 | std::to_integer<int64_t>(bytes[4 + 4 * d + i]);
    view.shape.push_back(size);
  }
  int64_t count = elementCount(view.shape), held = int64_t(bytes.size() - header);
  if (count < 0 || count > held || count * scalarBytes(view.type) != held)
    throw Error(file.path(), ": IDX dimensions ", shapeText(view.shape), " do not fit ", held,
                " bytes of data; the file is cut off or damaged");
  view.data = bytes.data() + header;
  view.bytes = held;
  view.bigEndian = scalarBytes(view.type) > 1;
  return view;
}

/// The text behind a key of NPY's header, a Python dictionary with three known keys.
static std::string npyField(const std::string &header, const std::string &key,
                            const std::string &path) {
  size_t at = header.find("'" + key + "'");
  size_t colon = at == std::string::npos ? at : header.find(':', at);
  if (colon == std::string::npos)
    throw Error(path, ": the NPY header has no '", key, "'");
  size_t begin = header.find_first_not_of(' ', colon + 1);
  if (begin == std::string::npos)
    throw Error(path, ": the NPY header's '", key, "' is empty");
  return header.substr(begin);
}

static std::vector<int64_t> npyShape(const std::string &text, const std::string &path) {
  std::vector<int64_t> shape;
  size_t end = text.find(')');
  if (text[0] != '(' || end == std::string::npos)
    throw Error(path, ": the NPY header's 'shape' is not a tuple");
  for (size_t i = 1; i < end;) {
    char *next = nullptr;
    int64_t size = std::strtoll(text.c_str() + i, &next, 10);
    if (next == text.c_str() + i)
      break;
    shape.push_back(size);
    i = size_t(next - text.c_str());
    while (i < end && (text[i] == ',' || text[i] == ' '))
      ++i;
  }
  return shape;
}

static TensorView readNpy(const FileBytes &file) {
  std::span<const std::byte> bytes = file.bytes();
  int version = bytes.size() > 6 ? std::to_integer<int>(bytes[6]) : 0;
  size_t lengthBytes = version == 1 ? 2 : 4, start = 8 + lengthBytes;
  uint32_t length = 0;
  if (bytes.size() >= start)
    std::memcpy(&length, bytes.data() + 8, lengthBytes);
  if (version < 1 || version > 3 || bytes.size() < start + length)
    throw Error(file.path(), ": the NPY header is cut off or of an unknown version");
  std::string header(reinterpret_cast<const char *>(bytes.data()) + start, length);
  TensorView view;
  std::string type = npyField(header, "descr", file.path()).substr(0, 5);
  static constexpr std::pair<const char *, Scalar> kTypes[] = {
      {"u1", Scalar::u8},   {"u2", Scalar::u16}, {"u4", Scalar::u32}, {"u8", Scalar::u64},
      {"i1", Scalar::i8},   {"i2", Scalar::i16}, {"i4", Scalar::i32}, {"i8", Scalar::i64},
      {"b1", Scalar::flag}, {"f2", Scalar::f16}, {"f4", Scalar::f32}, {"f8", Scalar::f64}};
  auto known = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto &pair) {
    return type.size() == 5 && type.substr(2, 2) == pair.first && type[4] == type[0];
  });
  if (known == std::end(kTypes) || !std::strchr("<>|=", type[1]))
    throw Error(file.path(), ": the NPY element type ", type,
                " is not supported; write b1, u1, u2, u4, u8, i1, i2, i4, i8, f2, f4 or f8");
  view.type = known->second;
  view.bigEndian = type[1] == '>' && scalarBytes(view.type) > 1;
  view.shape = npyShape(npyField(header, "shape", file.path()), file.path());
  if (npyField(header, "fortran_order", file.path())[0] == 'T' && view.shape.size() > 1)
    throw Error(file.path(), ": the NPY array is in Fortran order; save numpy.ascontiguousarray");
  int64_t count = elementCount(view.shape), held = int64_t(bytes.size() - start - length);
  if (count < 0 || count > held || count * scalarBytes(view.type) != held)
    throw Error(file.path(), ": the NPY shape ", shapeText(view.shape), " does not fit ", held,
                " bytes of data; the file is cut off or damaged");
  view.data = bytes.data() + start + length;
  view.bytes = held;
  return view;
}

static TensorView pick(const FileBytes &file, const std::string &input) {
  std::map<std::string, TensorView> tensors = readSafetensors(file);
  if (auto named = tensors.find(input); named != tensors.end())
    return named->second;
  if (tensors.size() == 1)
    return tensors.begin()->second;
  std::string names;
  for (const auto &[name, tensor] : tensors)
    names += (names.empty() ? "" : ", ") + name;
  throw Error(file.path(), ": has no tensor '", input, "'; it holds ", names);
}

static bool isNpy(std::span<const std::byte> bytes) {
  return bytes.size() >= 6 && std::memcmp(bytes.data(), "\x93NUMPY", 6) == 0;
}

/// A length that the file has room for, then a header in braces.
static bool isSafetensors(std::span<const std::byte> bytes) {
  if (bytes.size() <= 8 || bytes[8] != std::byte{'{'})
    return false;
  uint64_t length = 0;
  for (int i = 8; i-- > 0;)
    length = length << 8 | std::to_integer<uint64_t>(bytes[i]);
  return length <= bytes.size() - 8;
}

DataFile openData(const std::string &path, const std::string &input) {
  DataFile data{std::make_unique<FileBytes>(path), {}};
  std::span<const std::byte> bytes = data.file->bytes();
  bool braced = bytes.size() > 8 && bytes[8] == std::byte{'{'};
  if (isNpy(bytes))
    data.tensor = readNpy(*data.file);
  else if (isIdx(bytes) && !braced)
    data.tensor = readIdx(*data.file);
  else if (braced)
    data.tensor = pick(*data.file, input);
  else
    throw Error(path,
                ": is neither IDX nor NPY nor safetensors; of a file of bare numbers, as one "
                "of tokens, say their type: ",
                input, "=", path, ",type=u16");
  data.file->release(); // its header; samples are read where they are asked for
  return data;
}

DataFile openNumbers(const std::string &path, Scalar type, int64_t skipped,
                     std::vector<int64_t> shape) {
  // Numbers may begin as gzipped data do.
  const auto gzipped = path.ends_with(".gz") ? FileBytes::Gzip::ifSo : FileBytes::Gzip::never;
  DataFile data{std::make_unique<FileBytes>(path, gzipped), {}};
  const std::span<const std::byte> bytes = data.file->bytes();
  if (isNpy(bytes) || isSafetensors(bytes))
    throw Error(path, isNpy(bytes) ? ": is NPY" : ": is safetensors",
                ", which says the type of its numbers itself; leave type= and skip= out");
  const int64_t each = scalarBytes(type), count = int64_t(bytes.size()) / each;
  if (int64_t(bytes.size()) % each != 0)
    throw Error(path, ": has ", bytes.size(), " bytes, expected numbers of ", each,
                " bytes each; give their type, or another copy where it is cut off");
  if (skipped > count)
    throw Error(path, ": holds ", count, " numbers, of which skip=", skipped,
                " leaves none; skip fewer");
  shape[0] = 1;
  const int64_t row = elementCount(shape);
  shape[0] = (count - skipped) / row;
  data.tensor = {.type = type,
                 .shape = shape,
                 .data = bytes.data() + skipped * each,
                 .bytes = shape[0] * row * each};
  data.file->release();
  return data;
}

} // namespace pdc::runtime
