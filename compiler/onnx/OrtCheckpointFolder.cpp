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
    throw Error("cannot be opened for reading");
  google::protobuf::io::IstreamInputStream stream(&file);
  google::protobuf::io::CodedInputStream input(&stream);
  uint32_t count = 0, length = 0;
  if (!input.ReadVarint32(&count))
    throw Error("empty or cut, expected the number of its tensors at its beginning; save the "
                "checkpoint again");
  bool isRead = true;
  std::vector<onnx::TensorProto> tensors;
  while (isRead && tensors.size() < count) {
    isRead = input.ReadVarint32(&length) && length <= uint32_t(std::numeric_limits<int>::max());
    if (!isRead)
      break;
    auto limit = input.PushLimit(static_cast<int>(length));
    // A file that ends early ends the message early too.
    isRead = tensors.emplace_back().ParseFromCodedStream(&input) && input.ConsumedEntireMessage() &&
             input.BytesUntilLimit() == 0;
    input.PopLimit(limit);
  }
  if (!isRead)
    throw Error("not the " + std::to_string(count) +
                " tensors that it says at its beginning; save the checkpoint again");
  return tensors;
}

/// What lies between the two; nothing where the name is another.
std::optional<std::string> between(std::string_view name, std::string_view beginning,
                                   std::string_view ending) {
  if (name.size() < beginning.size() + ending.size() || !name.starts_with(beginning) ||
      !name.ends_with(ending))
    return std::nullopt;
  name.remove_prefix(beginning.size());
  name.remove_suffix(ending.size());
  return std::string(name);
}

class FolderReader {
public:
  explicit FolderReader(const std::filesystem::path &folder) : folder(folder) {}

  OrtCheckpoint read() {
    for (const std::filesystem::path &file : listFiles()) {
      const std::string name = file.filename().string();
      try {
        readFile(file, name);
      } catch (const Error &error) {
        throw Error(name + ": " + error.what());
      }
    }
    if (result.parameters.empty())
      throw Error("no checkpoint of ONNX Runtime's training (it has no parameters in "
                  "paramtrain_tensors.pbseq or paramfrozen_tensors.pbseq)");
    for (const auto &[parameter, group] : groups)
      if (!groupsOfSteps.contains(group))
        throw Error("has optimizer states of group '" + group +
                    "', but no 'builtin.step' in optim_" + group +
                    "_properties.pbseq; add this file from where the checkpoint was saved");
    return std::move(result);
  }

private:
  /// In one order on every file system.
  std::set<std::filesystem::path> listFiles() const {
    std::error_code error;
    std::set<std::filesystem::path> files;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error))
      files.insert(entry->path());
    if (error)
      throw Error("cannot be listed: " + error.message());
    return files;
  }

  void readFile(const std::filesystem::path &file, const std::string &name) {
    if (!name.ends_with(".pbseq"))
      return;
    if (name.starts_with("paramtrain") || name.starts_with("paramfrozen"))
      return readParameters(file, name.starts_with("paramtrain"));
    if (!name.starts_with("optim_"))
      return;
    if (auto group = between(name, "optim_", "_properties.pbseq"))
      return readProperties(file, *group);
    for (size_t state : {0, 1})
      if (auto group =
              between(name, "optim_", "_momentum" + std::to_string(state) + "_tensors.pbseq"))
        return readStates(file, *group, state);
    throw Error("not a file of AdamW, expected optim_GROUP_momentum0_tensors.pbseq, "
                "optim_GROUP_momentum1_tensors.pbseq or optim_GROUP_properties.pbseq");
  }

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

  /// One file holds one state of all parameters of a group.
  void readStates(const std::filesystem::path &file, const std::string &group, size_t state) {
    for (onnx::TensorProto &tensor : readTensors(file)) {
      const std::string name = tensor.name(), where = "optimizer state of '" + name + "'";
      std::vector<Initializer> &states = result.states[name];
      const std::string &first = groups.try_emplace(name, group).first->second;
      if (states.size() > state || first != group)
        throw Error(where + " is there twice");
      if (states.size() < state)
        throw Error(where + " is not in optim_" + group + "_momentum0_tensors.pbseq");
      states.push_back(take(tensor, where));
    }
  }

  void readProperties(const std::filesystem::path &file, const std::string &group) {
    for (onnx::TensorProto &tensor : readTensors(file)) {
      const std::string name = tensor.name();
      if (name != "builtin.step" && name != "builtin.initial_learning_rate")
        continue;
      const Tensor value = readTensor(take(tensor, "property '" + name + "'"));
      if (value.data.size() != 1)
        throw Error("property '" + name + "' is " + value.type.toString() +
                    ", expected one number");
      if (name == "builtin.step") {
        result.takeStep(value.data[0]);
        groupsOfSteps.insert(group);
      } else {
        result.learningRates.push_back(asWritten(static_cast<float>(value.data[0])));
      }
    }
  }

  Initializer take(onnx::TensorProto &tensor, const std::string &where) const {
    Initializer taken = takeInitializer(tensor, where, {folder});
    taken.name = tensor.name();
    return taken;
  }

  const std::filesystem::path &folder;
  std::set<std::string> seen;
  std::map<std::string, std::string> groups; ///< of parameters that have states
  std::set<std::string> groupsOfSteps;
  OrtCheckpoint result;
};

} // namespace

OrtCheckpoint readOrtCheckpointFolder(const std::filesystem::path &folder) {
  return FolderReader(folder).read();
}

} // namespace pdc
