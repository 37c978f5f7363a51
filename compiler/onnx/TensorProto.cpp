#include "compiler/onnx/TensorProto.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <utility>

namespace pdc {

static_assert(std::endian::native == std::endian::little, "tensor bytes are little-endian");

/// Types that are newer than the message classes may be.
static constexpr int firstNewType = 17;
static constexpr std::string_view newTypes[] = {
    "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4",
    "INT4",         "FLOAT4E2M1",     "FLOAT8E8M0", "UINT2",          "INT2"};

static bool isNewType(int onnxType) {
  return onnxType >= firstNewType && onnxType - firstNewType < int(std::size(newTypes));
}

static std::string nameOf(int onnxType) {
  if (isNewType(onnxType))
    return std::string(newTypes[onnxType - firstNewType]);
  return onnx::TensorProto::DataType_IsValid(onnxType)
             ? onnx::TensorProto::DataType_Name(onnx::TensorProto::DataType(onnxType))
             : std::to_string(onnxType);
}

ElementType toElementType(int onnxType, const std::string &where) {
  switch (onnxType) {
  case onnx::TensorProto::FLOAT:
    return ElementType::f32;
  case onnx::TensorProto::DOUBLE:
    return ElementType::f64;
  case onnx::TensorProto::FLOAT16:
    return ElementType::f16;
  case onnx::TensorProto::BFLOAT16:
    return ElementType::bf16;
  case onnx::TensorProto::INT64:
    return ElementType::i64;
  case onnx::TensorProto::INT32:
    return ElementType::i32;
  case onnx::TensorProto::INT8:
    return ElementType::i8;
  case onnx::TensorProto::UINT8:
    return ElementType::u8;
  case onnx::TensorProto::BOOL:
    return ElementType::boolean;
  default:
    break;
  }
  throw Error(where + ": element type " + nameOf(onnxType) +
              " is not supported; supported are FLOAT, DOUBLE, FLOAT16, BFLOAT16, INT64, INT32, "
              "INT8, UINT8 and BOOL, and of constants INT16, UINT16, UINT32 and UINT64" +
              (isNewType(onnxType) ? "; export the model before it is quantised" : ""));
}

void checkRank(int rank, const std::string &where) {
  constexpr int most = 64;
  if (rank > most)
    throw Error(where + ": rank " + std::to_string(rank) + " exceeds " + std::to_string(most));
}

int64_t checkedElementCount(const TensorType &type, const std::string &where) {
  // As the IR allows.
  constexpr int64_t limit = int64_t(1) << 40;
  int64_t count = 1;
  bool empty = false;
  for (int64_t dimension : type.shape) {
    if (dimension < 0)
      throw Error(where + ": dimension " + std::to_string(dimension) + " is negative");
    if (dimension == 0)
      empty = true;
    else if (dimension > limit / count)
      throw Error(where + ": the shape has more elements than a machine can address");
    else
      count *= dimension;
  }
  return empty ? 0 : count;
}

namespace {

/// Reads the elements of one TensorProto, wherever the format puts them.
class TensorTaker {
public:
  TensorTaker(onnx::TensorProto &proto, const std::string &where, const ModelFolder &folder)
      : proto(proto), where(where), folder(folder) {}

  Initializer take() {
    initializer.name = proto.name();
    switch (proto.data_type()) {
    case onnx::TensorProto::INT16:
      return takeWidened<int16_t>(proto.int32_data(), "int32_data");
    case onnx::TensorProto::UINT16:
      return takeWidened<uint16_t>(proto.int32_data(), "int32_data");
    case onnx::TensorProto::UINT32:
      return takeWidened<uint32_t>(proto.uint64_data(), "uint64_data");
    case onnx::TensorProto::UINT64:
      return takeWidened<uint64_t>(proto.uint64_data(), "uint64_data");
    default:
      break;
    }
    readType(toElementType(proto.data_type(), where));
    takeBytes([this] { packTypedData(); });
    makeComputed(initializer);
    return std::move(initializer);
  }

private:
  template <typename Pack> void takeBytes(Pack packTyped) {
    if (proto.data_location() == onnx::TensorProto::EXTERNAL)
      locateExternalData();
    else if (proto.has_raw_data())
      takeRawData();
    else
      packTyped();
  }

  /// Whole numbers of a width that pdc does not compute in, as i64: what is known when a model is
  /// compiled has no width of its own.
  template <typename Stored, typename Field>
  Initializer takeWidened(const Field &field, std::string_view name) {
    readType(ElementType::i64);
    initializer.widened = nameOf(proto.data_type());
    initializer.length = elements * sizeof(Stored);
    takeBytes([&] { pack<Stored>(field, name); });
    const std::string stored = readBytes(initializer);
    initializer.bytes.clear();
    initializer.file.clear();
    initializer.offset = 0;
    for (size_t i = 0; i < stored.size(); i += sizeof(Stored)) {
      Stored value;
      std::memcpy(&value, stored.data() + i, sizeof value);
      if (!std::in_range<int64_t>(value))
        throw Error(where + ": the integer " + std::to_string(value) + " exceeds int64");
      const auto wide = static_cast<int64_t>(value);
      initializer.bytes.append(reinterpret_cast<const char *>(&wide), sizeof wide);
    }
    initializer.length = initializer.bytes.size();
    return std::move(initializer);
  }

  void readType(ElementType element) {
    if (proto.has_segment())
      throw Error(where + ": a tensor stored in segments is not supported");
    initializer.type.element = element;
    checkRank(proto.dims_size(), where);
    initializer.type.shape.assign(proto.dims().begin(), proto.dims().end());
    elements = checkedElementCount(initializer.type, where);
    initializer.length = elements * bytesPerElement(initializer.type.element);
  }

  void expectCount(int64_t found, std::string_view field) {
    if (found != elements)
      throw Error(where + ": shape " + initializer.type.toString() + " needs " +
                  std::to_string(elements) + " elements, but " + std::string(field) + " holds " +
                  std::to_string(found));
  }

  void takeRawData() {
    if (proto.raw_data().size() != initializer.length)
      throw Error(where + ": shape " + initializer.type.toString() + " needs " +
                  std::to_string(initializer.length) + " bytes, but raw_data holds " +
                  std::to_string(proto.raw_data().size()));
    initializer.bytes = std::move(*proto.mutable_raw_data());
  }

  template <typename Stored, typename Field> void pack(const Field &field, std::string_view name) {
    expectCount(field.size(), name);
    initializer.bytes.resize(initializer.length);
    char *out = initializer.bytes.data();
    for (auto value : field) {
      Stored stored = static_cast<Stored>(value);
      std::memcpy(out, &stored, sizeof stored);
      out += sizeof stored;
    }
  }

  void packTypedData() {
    switch (initializer.type.element) {
    case ElementType::f32:
      return pack<float>(proto.float_data(), "float_data");
    case ElementType::f64:
      return pack<double>(proto.double_data(), "double_data");
    case ElementType::i64:
      return pack<int64_t>(proto.int64_data(), "int64_data");
    case ElementType::i32:
      return pack<int32_t>(proto.int32_data(), "int32_data");
    case ElementType::f16:
    case ElementType::bf16:
      return pack<uint16_t>(proto.int32_data(), "int32_data");
    case ElementType::i8:
    case ElementType::u8:
    case ElementType::boolean:
      return pack<uint8_t>(proto.int32_data(), "int32_data");
    }
  }

  std::string externalField(std::string_view key) {
    for (const auto &entry : proto.external_data())
      if (entry.key() == key)
        return entry.value();
    return "";
  }

  uint64_t externalNumber(std::string_view key, uint64_t otherwise) {
    std::string text = externalField(key);
    if (text.empty())
      return otherwise;
    uint64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      throw Error(where + ": external data field '" + std::string(key) + "' is '" + text +
                  "', expected a number of bytes");
    return value;
  }

  static bool isInside(const std::filesystem::path &file, const std::filesystem::path &root) {
    const std::filesystem::path inside = file.lexically_relative(root);
    return !inside.empty() && *inside.begin() != ".." && *inside.begin() != ".";
  }

  /// The file, which must lie in the model's folder by its name. A link there may lead to the
  /// folder that the model's own link leads to, and no further: else a file could name any other.
  std::filesystem::path externalFile() {
    std::string location = externalField("location");
    if (location.empty())
      throw Error(where + ": external data without a location");
    if (folder.path.empty())
      throw Error(where + ": external data '" + location +
                  "' of a model that is not read from a file");
    std::error_code error;
    const auto root = std::filesystem::weakly_canonical(folder.path, error);
    const auto place = root / location;
    const auto named =
        (std::filesystem::weakly_canonical(place.parent_path(), error) / place.filename())
            .lexically_normal();
    if (error || !isInside(named, root))
      throw Error(where + ": external data '" + location + "' lies outside of the model's folder");
    auto file = std::filesystem::weakly_canonical(named, error);
    const bool isBesideModel = !folder.linked.empty() && file.parent_path() == folder.linked;
    if (error || (!isInside(file, root) && !isBesideModel))
      throw Error(
          where + ": external data '" + location + "' is a link to " + file.string() +
          ", outside of the model's folder and of the one that the model is a link into; put "
          "the file there in the link's place, as cp -rL copies a folder");
    return file;
  }

  void locateExternalData() {
    initializer.file = externalFile();
    initializer.offset = externalNumber("offset", 0);
    uint64_t length = externalNumber("length", initializer.length);
    if (length != initializer.length)
      throw Error(where + ": shape " + initializer.type.toString() + " needs " +
                  std::to_string(initializer.length) + " bytes, but its external data has length " +
                  std::to_string(length));
    std::error_code error;
    const bool isFile = std::filesystem::is_regular_file(initializer.file, error);
    uint64_t size = isFile ? std::filesystem::file_size(initializer.file, error) : 0;
    if (error || initializer.offset > size || length > size - initializer.offset)
      throw Error(where + ": external data needs bytes " + std::to_string(initializer.offset) +
                  " to " + std::to_string(initializer.offset + length) + " of " +
                  initializer.file.string() + ", which " +
                  (error    ? "cannot be read: " + error.message()
                   : isFile ? "has " + std::to_string(size) + " bytes"
                            : "is no file"));
  }

  onnx::TensorProto &proto;
  const std::string &where;
  const ModelFolder &folder;
  Initializer initializer;
  int64_t elements = 0;
};

} // namespace

Initializer takeInitializer(onnx::TensorProto &proto, const std::string &where,
                            const ModelFolder &folder) {
  return TensorTaker(proto, where, folder).take();
}

double toElement(int64_t value, const std::string &where) {
  constexpr int64_t exact = int64_t(1) << 53, bound = std::numeric_limits<int64_t>::max();
  bool isHeld = (value >= -exact && value <= exact) || value >= bound || value <= -bound;
  if (!isHeld)
    throw Error(where + ": the integer " + std::to_string(value) +
                " is needed at compile time, expected at most 9007199254740992 (2^53)");
  return static_cast<double>(value);
}

} // namespace pdc
