#include "compiler/onnx/OrtCheckpoint.h"

#include "compiler/onnx/NodeAttributes.h"
#include "compiler/onnx/Protobuf.h"
#include "compiler/onnx/TensorProto.h"

#include <fstream>
#include <limits>

namespace pdc {

namespace {

/// The number of tensors, and each behind its length.
std::vector<onnx::TensorProto> readTensors(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error(path.filename().string() + ": cannot be opened for reading");
  google::protobuf::io::IstreamInputStream stream(&file);
  google::protobuf::io::CodedInputStream input(&stream);
  uint32_t count = 0, length = 0;
  bool isRead = input.ReadVarint32(&count);
  std::vector<onnx::TensorProto> tensors;
  while (isRead && tensors.size() < count) {
    isRead = input.ReadVarint32(&length) && length <= uint32_t(std::numeric_limits<int>::max());
    if (!isRead)
      break;
    auto limit = input.PushLimit(static_cast<int>(length));
    isRead = tensors.emplace_back().ParseFromCodedStream(&input) && input.ConsumedEntireMessage();
    input.PopLimit(limit);
  }
  if (!isRead)
    throw Error(path.filename().string() + ": not the " + std::to_string(count) +
                " tensors that it says at its beginning; save the checkpoint again");
  return tensors;
}

class FolderReader {
public:
  explicit FolderReader(const std::filesystem::path &folder) : folder(folder) {}

  OrtCheckpoint read() {
    std::error_code error;
    std::set<std::filesystem::path> files; // in one order on every file system
    for (const auto &entry : std::filesystem::directory_iterator(folder, error))
      files.insert(entry.path());
    for (const std::filesystem::path &file : files) {
      const std::string name = file.filename().string();
      if (!name.ends_with(".pbseq"))
        continue;
      if (name.starts_with("paramtrain") || name.starts_with("paramfrozen"))
        readParameters(file, name.starts_with("paramtrain"));
      else if (name.starts_with("optim_") && name.ends_with("_properties.pbseq"))
        readProperties(file);
      else if (name.starts_with("optim_"))
        readStates(file);
    }
    if (error || result.parameters.empty())
      throw Error("no checkpoint of ONNX Runtime's training (it has no parameters in "
                  "paramtrain_tensors.pbseq or paramfrozen_tensors.pbseq)");
    return std::move(result);
  }

private:
  void readParameters(const std::filesystem::path &file, bool isTrained) {
    for (onnx::TensorProto &tensor : readTensors(file)) {
      const std::string name = tensor.name();
      if (!seen.insert(name).second)
        throw Error("parameter '" + name + "' is there twice");
      if (isTrained)
        result.trained.insert(name);
      result.parameters.push_back(take(tensor, "parameter '" + name + "'"));
    }
  }

  /// One file holds one state of all parameters; in order of their names, momentum0 comes first.
  void readStates(const std::filesystem::path &file) {
    for (onnx::TensorProto &tensor : readTensors(file)) {
      const std::string name = tensor.name();
      result.states[name].push_back(
          take(tensor, file.filename().string() + ": optimizer state of '" + name + "'"));
    }
  }

  void readProperties(const std::filesystem::path &file) {
    for (onnx::TensorProto &tensor : readTensors(file)) {
      const std::string name = tensor.name();
      if (name != "builtin.step" && name != "builtin.initial_learning_rate")
        continue;
      const Tensor value = readTensor(take(tensor, "property '" + name + "'"));
      if (value.data.size() != 1)
        throw Error("property '" + name + "' is " + value.type.toString() +
                    ", expected one number");
      if (name == "builtin.step")
        result.step = std::max(result.step, toInteger(value.data[0]));
      else
        result.learningRates.push_back(asWritten(static_cast<float>(value.data[0])));
    }
  }

  Initializer take(onnx::TensorProto &tensor, const std::string &where) const {
    Initializer taken = takeInitializer(tensor, where, folder);
    taken.name = tensor.name();
    return taken;
  }

  const std::filesystem::path &folder;
  std::set<std::string> seen;
  OrtCheckpoint result;
};

} // namespace

OrtCheckpoint readOrtCheckpointFolder(const std::filesystem::path &folder) {
  return FolderReader(folder).read();
}

} // namespace pdc
