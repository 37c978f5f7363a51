#include "runtime/Checkpoint.h"
#include "runtime/CheckpointFolder.h"
#include "runtime/Error.h"
#include "runtime/MemoryTensors.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

namespace pdc::runtime {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr const char *kOtherCheckpoint = "resume from another checkpoint of this model";

static Json readJson(const fs::path &path) {
  FileBytes file(path);
  const char *text = reinterpret_cast<const char *>(file.bytes().data());
  Json json = Json::parse(text, text + file.bytes().size(), nullptr, false);
  if (!json.is_object())
    throw Error(path.string(), ": is cut off or damaged: found ",
                json.is_discarded() ? "no JSON" : json.type_name(), ", expected a JSON object; ",
                kOtherCheckpoint);
  return json;
}

/// A value as an error quotes it.
static std::string valueText(const Json &json) {
  if (json.is_structured())
    return std::string("an ") + json.type_name();
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 60) + "...";
}

/// Field `name` of state.json, a whole number from 0 to `most`.
static uint64_t counter(const fs::path &path, const Json &json, const char *name,
                        uint64_t most = kMostCounted) {
  auto field = json.find(name);
  if (field == json.end())
    throw Error(path.string(), ": has no '", name, "', expected a whole number; ",
                kOtherCheckpoint);
  if (!field->is_number_unsigned() || field->get<uint64_t>() > most)
    throw Error(path.string(), ": '", name, "' is ", valueText(*field),
                ", expected a whole number from 0 to ", most, "; ", kOtherCheckpoint);
  return field->get<uint64_t>();
}

static double scaleOf(const fs::path &path, const Json &json, const char *name) {
  auto field = json.find(name);
  if (field == json.end() || !field->is_number() || !(field->get<double>() > 0))
    throw Error(path.string(), ": '", name, "' is ",
                field == json.end() ? "not there" : valueText(*field),
                ", expected a number above 0; ", kOtherCheckpoint);
  return field->get<double>();
}

/// How often the weights in each part were updated, where that is not the number of steps.
static std::map<std::string, int64_t> readUpdates(const fs::path &path, const Json &json) {
  std::map<std::string, int64_t> updates;
  if (auto parts = json.find("updates"); parts != json.end() && parts->is_object())
    for (const auto &part : parts->items())
      updates[part.key()] = int64_t(counter(path, *parts, part.key().c_str()));
  return updates;
}

/// Who writes a checkpoint by hand may leave them out.
static std::map<std::string, std::string> readOptions(const fs::path &path, const Json &json) {
  std::map<std::string, std::string> options;
  auto found = json.find("options");
  if (found == json.end())
    return options;
  if (!found->is_object())
    throw Error(path.string(), ": 'options' is ", valueText(*found), ", expected an object; ",
                kOtherCheckpoint);
  for (const auto &[name, value] : found->items()) {
    const auto *text = value.get_ptr<const std::string *>();
    if (!text)
      throw Error(path.string(), ": option '", name, "' is ", valueText(value),
                  ", expected a string; ", kOtherCheckpoint);
    options[name] = *text;
  }
  return options;
}

/// The fingerprint of each input's file. Checkpoints of earlier versions have none.
static std::map<std::string, int64_t> readDataFiles(const fs::path &path, const Json &json) {
  std::map<std::string, int64_t> files;
  if (auto found = json.find("data"); found != json.end() && found->is_object())
    for (const auto &file : found->items())
      files[file.key()] =
          int64_t(counter(path, *found, file.key().c_str(), std::numeric_limits<int64_t>::max()));
  return files;
}

/// What `read` throws, with the checkpoint that can be taken in place of this one.
template <class Read> static auto orNameAnother(const std::string &checkpoint, Read read) {
  try {
    return read();
  } catch (const Error &error) {
    const std::string before = checkpointBefore(checkpoint);
    if (before.empty())
      throw;
    throw Error(error.what(), "; the one before it is ", before);
  }
}

static TrainingState stateIn(const fs::path &path, const Json &json) {
  TrainingState state;
  state.step = int64_t(counter(path, json, "step"));
  state.epoch = int64_t(counter(path, json, "epoch"));
  state.cursor = int64_t(counter(path, json, "cursor"));
  state.seed = counter(path, json, "seed", std::numeric_limits<uint64_t>::max());
  if (json.contains("steps_left_out")) {
    state.lossScale.goodSteps = int64_t(counter(path, json, "loss_scale_steps"));
    state.lossScale.leftOut = int64_t(counter(path, json, "steps_left_out"));
    state.lossScale.value = scaleOf(path, json, "loss_scale");
    state.lossScale.divisor = scaleOf(path, json, "loss_divisor");
  }
  state.updates = std::max<int64_t>(0, state.step - state.lossScale.leftOut);
  state.updatesOfParts = readUpdates(path, json);
  state.options = readOptions(path, json);
  if (json.contains("samples"))
    state.samples = int64_t(counter(path, json, "samples", std::numeric_limits<int64_t>::max()));
  state.dataFiles = readDataFiles(path, json);
  return state;
}

TrainingState readState(const Program &program, const std::string &checkpoint) {
  const fs::path path = fs::path(checkpoint) / "state.json";
  Json json;
  const TrainingState state = orNameAnother(checkpoint, [&] {
    json = readJson(path);
    return stateIn(path, json);
  });
  // Who writes a checkpoint by hand may leave it out.
  if (!json.contains("microbatch_size"))
    return state;
  int64_t size = int64_t(counter(path, json, "microbatch_size"));
  if (size != program.microbatchSize)
    throw Error(path.string(), ": was written with microbatches of ", size, " samples, expected ",
                program.microbatchSize, " as the program has; run pdc with microbatches of ", size,
                " samples");
  return state;
}

/// Which file of its own folder holds each tensor.
static std::map<std::string, std::string> readIndex(const fs::path &path) {
  const Json json = readJson(path);
  auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object())
    throw Error(path.string(), ": 'weight_map' is ",
                map == json.end() ? "missing" : valueText(*map),
                ", expected an object of tensor name and file name; ", kOtherCheckpoint);
  std::map<std::string, std::string> files;
  for (const auto &[tensor, value] : map->items()) {
    const auto *file = value.get_ptr<const std::string *>();
    if (!file || fs::path(*file).filename() != *file || *file == ".." ||
        file->find('\0') != std::string::npos)
      throw Error(path.string(), ": the file of tensor '", tensor, "' is ", valueText(value),
                  ", expected the name of a file in the same folder; ", kOtherCheckpoint);
    files[tensor] = *file;
  }
  return files;
}

/// The states of a tensor, by the ends of their names, and the optimizers that have them.
struct OptimizerStates {
  std::set<std::string> names;

  void add(const std::string &tensor) {
    const size_t slash = tensor.rfind('/');
    const std::string name = slash == std::string::npos ? "" : tensor.substr(slash + 1);
    if (name == "momentum" || name == "exp_avg" || name == "exp_avg_sq" || name == "sum")
      names.insert(name);
  }
  std::string text() const {
    if (names.empty())
      return "sgd, which has no states";
    std::string list;
    for (const std::string &name : names)
      list += (list.empty() ? "" : ", ") + name;
    const char *kinds = names.contains("exp_avg")    ? "adam, adamw or lamb"
                        : names.contains("momentum") ? "momentum or nesterov"
                                                     : "adagrad";
    return std::string(kinds) + " (" + list + ")";
  }
};

/// Throws where the program's optimizer has states that the one of the checkpoint had not.
static void requireOptimizer(const Program &program, const fs::path &path,
                             const std::map<std::string, std::string> &files) {
  OptimizerStates here, there;
  for (const Memory &memory : program.memories)
    if (memory.role == Role::optimizer)
      here.add(memory.name);
  for (const auto &[tensor, file] : files)
    there.add(tensor);
  if (!std::ranges::includes(there.names, here.names))
    throw Error(path.string(), ": is of a run with optimizer ", there.text(),
                ", and this program's is ", here.text(),
                "; resume with the program of that run, or run pdc with its --optimizer");
}

static void loadFiles(const Program &program, const Executor &executor, const fs::path &path,
                      const std::map<std::string, std::string> &files, TrainingState &state,
                      std::map<std::string, int64_t> &fingerprints) {
  std::map<std::string, std::unique_ptr<FileBytes>> opened;
  std::map<std::string, std::map<std::string, TensorView>> tensors;
  for (const Memory &memory : program.memories) {
    if (!isSaved(memory))
      continue;
    auto file = files.find(memory.name);
    // Of another split it may be no more than part of a constant.
    if (file == files.end() && isKept(memory))
      continue;
    if (file == files.end())
      throw Error((path / kCheckpointIndex).string(), ": names no file for tensor '", memory.name,
                  "', which rank ", program.rank, " needs; ", kOtherCheckpoint);
    if (!opened[file->second]) {
      opened[file->second] = std::make_unique<FileBytes>(path / file->second);
      tensors[file->second] = readSafetensors(*opened[file->second]);
    }
    loadTensor(program, memory, executor, tensors[file->second], path / file->second,
               kOtherCheckpoint, kOtherCheckpoint);
    auto made = state.updatesOfParts.find(file->second);
    if (made != state.updatesOfParts.end() && isTrained(program, memory))
      state.updates = made->second;
    opened[file->second]->release();
  }
  // Of the parts the first, too, which all ranks know.
  std::set<std::string> read = {"state.json"};
  if (!files.empty() && fs::exists(path / files.begin()->second))
    read.insert(files.begin()->second);
  for (const auto &[name, unused] : opened)
    read.insert(name);
  for (const std::string &name : read)
    fingerprints[name] = fingerprintOf(path / name);
}

void loadTensors(const Program &program, const Executor &executor, const std::string &checkpoint,
                 TrainingState &state, std::map<std::string, int64_t> &fingerprints) {
  const fs::path path = checkpoint;
  const std::map<std::string, std::string> files =
      orNameAnother(checkpoint, [&] { return readIndex(path / kCheckpointIndex); });
  requireOptimizer(program, path / kCheckpointIndex, files);
  orNameAnother(checkpoint,
                [&] { loadFiles(program, executor, path, files, state, fingerprints); });
}

} // namespace pdc::runtime
