#include "compiler/onnx/OrtCheckpoint.h"

#include "compiler/onnx/NodeAttributes.h"
#include "compiler/onnx/TensorProto.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

namespace pdc {

namespace {

/// Lists of an honest file do not overlap: together they are no larger than it.
struct FlatFile {
  std::string bytes;
  size_t left = 0; ///< how large those may be that are not read yet
};

/// A table of a FlatBuffers file: fields by their numbers in the schema. Every offset of the file is
/// checked before it is followed.
class FlatTable {
public:
  FlatTable(FlatFile &file, size_t at) : file(&file), at(at) {}

  template <class T> T number(int field, T otherwise) const {
    size_t place = placeOf(field);
    return place ? load<T>(place) : otherwise;
  }
  std::string text(int field) const {
    auto [begin, count] = list(field, 1);
    return file->bytes.substr(begin, count);
  }
  FlatTable table(int field) const {
    size_t place = placeOf(field);
    if (!place)
      throw Error("field " + std::to_string(field) + " of a table is missing");
    return {*file, place + load<uint32_t>(place)};
  }
  bool has(int field) const { return placeOf(field) != 0; }
  std::vector<FlatTable> tables(int field) const {
    auto [begin, count] = list(field, sizeof(uint32_t));
    std::vector<FlatTable> found;
    for (size_t i = 0; i < count; ++i)
      found.push_back({*file, begin + 4 * i + load<uint32_t>(begin + 4 * i)});
    return found;
  }
  std::vector<int64_t> integers(int field) const {
    auto [begin, count] = list(field, sizeof(int64_t));
    std::vector<int64_t> found;
    for (size_t i = 0; i < count; ++i)
      found.push_back(load<int64_t>(begin + 8 * i));
    return found;
  }
  /// Where a list begins and how many elements it has; none where it is left out.
  std::pair<size_t, size_t> list(int field, size_t elementBytes) const {
    size_t place = placeOf(field);
    if (!place)
      return {0, 0};
    size_t begin = place + load<uint32_t>(place);
    size_t count = load<uint32_t>(begin);
    begin += 4;
    const size_t size = file->bytes.size();
    if (begin > size || count > (size - begin) / elementBytes)
      throw Error("a list of " + std::to_string(count) + " elements goes beyond its end");
    if (count * elementBytes > file->left)
      throw Error("a list of " + std::to_string(count * elementBytes) +
                  " bytes overlaps others, expected all lists together to be within the file's " +
                  std::to_string(size) + " bytes; save the checkpoint again");
    file->left -= count * elementBytes;
    return {begin, count};
  }

private:
  template <class T> T load(size_t place) const {
    T value;
    const std::string &bytes = file->bytes;
    if (place > bytes.size() || bytes.size() - place < sizeof value)
      throw Error("an offset points beyond its end");
    std::memcpy(&value, bytes.data() + place, sizeof value);
    return value;
  }

  /// 0 where the field is left out.
  size_t placeOf(int field) const {
    int64_t table = static_cast<int64_t>(at) - load<int32_t>(at);
    if (table < 0)
      throw Error("an offset points before its beginning");
    size_t fields = static_cast<size_t>(table), entry = 4 + 2 * static_cast<size_t>(field);
    if (entry + 2 > load<uint16_t>(fields))
      return 0;
    uint16_t offset = load<uint16_t>(fields + entry);
    return offset ? at + offset : 0;
  }

  FlatFile *file;
  size_t at;
};

class CheckpointReader {
public:
  explicit CheckpointReader(const std::filesystem::path &path) : path(path) {}

  OrtCheckpoint read() {
    std::error_code error;
    uint64_t size = std::filesystem::file_size(path, error);
    std::string &bytes = file.bytes;
    bytes.resize(error ? 0 : size);
    std::ifstream stream(path, std::ios::binary);
    if (error || !stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
      throw Error("cannot be read");
    if (bytes.size() < 8 || bytes.compare(4, 4, "ODTC") != 0)
      throw Error("not a checkpoint of ONNX Runtime's training (a FlatBuffers file with 'ODTC' at "
                  "byte 4)");
    uint32_t root = 0;
    std::memcpy(&root, bytes.data(), sizeof root);
    file.left = bytes.size();
    FlatTable checkpoint(file, root);
    readModule(checkpoint.table(1));
    for (const FlatTable &group : checkpoint.tables(2)) {
      result.takeStep(static_cast<double>(group.number<int64_t>(1, 0)));
      result.learningRates.push_back(asWritten(group.number<float>(2, 0))); // zeros are left out
      for (const FlatTable &states : group.tables(3))
        readStates(states);
    }
    return std::move(result);
  }

private:
  void readModule(const FlatTable &module) {
    if (module.number<uint8_t>(2, 0))
      throw Error("a nominal checkpoint, which has no values; give the one with values");
    if (module.number<uint8_t>(3, 0))
      data = path.string() + ".data";
    for (int field : {0, 1})
      for (const FlatTable &tensor : module.tables(field)) {
        std::string name = tensor.text(0);
        if (!seen.insert(name).second)
          throw Error("parameter '" + name + "' is there twice");
        if (field == 0)
          result.trained.insert(name);
        result.parameters.push_back(readTensor(tensor, name, "parameter '" + name + "'"));
      }
  }

  void readStates(const FlatTable &states) {
    const std::string parameter = states.text(0);
    auto [found, isNew] = result.states.try_emplace(parameter);
    if (!isNew)
      throw Error("the optimizer states of '" + parameter + "' are there twice");
    for (const FlatTable &tensor : states.tables(1)) {
      const std::string name = tensor.text(0);
      found->second.push_back(
          readTensor(tensor, name, "optimizer state '" + name + "' of '" + parameter + "'"));
    }
  }

  Initializer readTensor(const FlatTable &tensor, const std::string &name,
                         const std::string &where) const {
    constexpr size_t maximumRank = 64;
    Initializer parameter;
    parameter.name = name;
    parameter.type = {toElementType(tensor.number<int32_t>(3, 0), where), tensor.integers(2)};
    if (parameter.type.shape.size() > maximumRank)
      throw Error(where + ": more than " + std::to_string(maximumRank) + " dimensions");
    parameter.length = static_cast<uint64_t>(checkedElementCount(parameter.type, where)) *
                       bytesPerElement(parameter.type.element);
    auto [begin, count] = tensor.list(4, 1);
    int64_t outside = tensor.number<int64_t>(6, -1);
    parameter.file = outside >= 0 ? data : path;
    parameter.offset = outside >= 0 ? static_cast<uint64_t>(outside) : begin;
    std::error_code error;
    uint64_t size = outside >= 0 && !data.empty() ? std::filesystem::file_size(data, error) : 0;
    uint64_t held = outside < 0 ? count : error || parameter.offset > size ? 0 : size - parameter.offset;
    if (outside < 0 ? held != parameter.length : held < parameter.length)
      throw Error(where + ": " + parameter.type.toString() + " needs " +
                  std::to_string(parameter.length) + " bytes, found " + std::to_string(held));
    makeComputed(parameter);
    return parameter;
  }

  const std::filesystem::path &path;
  std::filesystem::path data;
  FlatFile file;
  std::set<std::string> seen;
  OrtCheckpoint result;
};

} // namespace

bool OrtCheckpoint::hasStates() const {
  return std::ranges::any_of(states, [](const auto &entry) { return !entry.second.empty(); });
}

void OrtCheckpoint::takeStep(double said) {
  constexpr double most = 0x1p53; // doubles count no further
  if (!(said >= 0 && said <= most && said == std::floor(said)))
    throw Error("step " + textOf(said) +
                " of its optimizer, expected a whole number from 0 to 2^53; save the checkpoint "
                "again");
  steps.push_back(static_cast<int64_t>(said));
}

OrtCheckpoint readOrtCheckpoint(const std::filesystem::path &path) {
  try {
    std::error_code error;
    return std::filesystem::is_directory(path, error) ? readOrtCheckpointFolder(path)
                                                      : CheckpointReader(path).read();
  } catch (const Error &error) {
    throw Error(path.string() + ": " + error.what());
  }
}

} // namespace pdc
