#include "runtime/Checkpoint.h"

#include "runtime/Error.h"
#include "runtime/MemoryTensors.h"
#include "runtime/SharedFolder.h"
#include "runtime/SmallFloats.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <unistd.h>

namespace pdc::runtime {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr const char *kIndex = "model.safetensors.index.json";

/// Of the network, but not trained: frozen weights and buffers.
static bool isKept(const Memory &memory) {
  return memory.role == Role::constant && memory.initial == Initial::file;
}

static bool isSaved(const Memory &memory) {
  return memory.role == Role::weight || memory.role == Role::optimizer ||
         memory.role == Role::state || isKept(memory);
}

// Saving.

static void writeText(const fs::path &path, const std::string &text) {
  FILE *file = std::fopen(path.c_str(), "wbe");
  bool good = file && std::fwrite(text.data(), 1, text.size(), file) == text.size() &&
              std::fflush(file) == 0 && fsync(fileno(file)) == 0;
  if ((file && std::fclose(file) != 0) || !good)
    throw Error(path.string(), ": cannot be written: ", std::strerror(errno));
}

static std::string partName(int rank, int ranks) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", rank + 1, ranks);
  return name;
}

/// The memories this rank writes: of those that several ranks hold, the first rank's.
static std::vector<const Memory *> ownMemories(const Program &program, Control &control,
                                               std::vector<std::vector<std::string>> &names) {
  std::string mine;
  for (const Memory &memory : program.memories)
    if (isSaved(memory))
      mine += std::string(memory.name) + '\0';
  std::vector<std::string> all;
  control.gather(mine, all);
  std::set<std::string> taken;
  for (const std::string &part : all) {
    names.emplace_back();
    std::istringstream fields(part);
    for (std::string name; std::getline(fields, name, '\0');)
      if (taken.insert(name).second)
        names.back().push_back(name);
  }
  std::vector<const Memory *> own;
  for (const Memory &memory : program.memories) {
    const auto &here = names[program.rank];
    if (isSaved(memory) && std::find(here.begin(), here.end(), memory.name) != here.end())
      own.push_back(&memory);
  }
  return own;
}

template <class T> static bool areFinite(const std::byte *from, int64_t bytes) {
  const auto *values = reinterpret_cast<const T *>(from);
  return std::all_of(values, values + bytes / int64_t(sizeof(T)),
                     [](T value) { return std::isfinite(float(value)); });
}

static bool areFinite(ElementType type, const std::byte *from, int64_t bytes) {
  switch (type) {
  case ElementType::f32:
    return areFinite<float>(from, bytes);
  case ElementType::f16:
    return areFinite<Float16>(from, bytes);
  case ElementType::bf16:
    return areFinite<BFloat16>(from, bytes);
  default:
    return true;
  }
}

/// Throws on every rank when any holds a number that training cannot go on from.
static void requireFinite(const Program &program, const Executor &executor, Control &control,
                          const std::vector<const Memory *> &own, int64_t step) {
  std::string mine;
  std::vector<std::byte> copy;
  for (const Memory *memory : own) {
    if (mine.empty() && isTrained(program, *memory) &&
        !areFinite(memory->element, look(executor, *memory, copy), memory->bytes))
      mine = memory->name;
  }
  std::vector<std::string> all;
  control.gather(mine, all);
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty())
      throw Error(
          "after step ", step, " '", all[rank], "' on rank ", rank,
          " holds numbers that are nan or infinite, so no checkpoint is written and earlier "
          "ones are kept; lower --lr, limit the gradient with --clip-norm, or check the "
          "data");
}

static void writePart(const Program &program, const Executor &executor, const fs::path &folder,
                      const std::vector<const Memory *> &own) {
  std::vector<TensorToWrite> tensors;
  std::vector<std::byte> copy;
  for (const Memory *memory : own)
    tensors.push_back({memory->name,
                       scalarOf(memory->element),
                       {memory->shape.begin(), memory->shape.end()},
                       [=, &executor, &copy](const auto &take) {
                         layoutOf(*memory).unpack(look(executor, *memory, copy),
                                                  elementBytes(memory->element), take);
                       }});
  writeSafetensors(folder / partName(program.rank, program.ranks), tensors);
}

static void writeIndexAndState(const Program &program, const fs::path &folder,
                               const std::vector<std::vector<std::string>> &names,
                               const std::vector<int64_t> &updates, const TrainingState &state) {
  Json index = {{"metadata", Json::object()}, {"weight_map", Json::object()}};
  for (int rank = 0; rank < int(names.size()); ++rank)
    for (const std::string &name : names[rank])
      index["weight_map"][name] = partName(rank, program.ranks);
  writeText(folder / kIndex, index.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  Json json = {{"step", state.step},
               {"epoch", state.epoch},
               {"cursor", state.cursor},
               {"seed", state.seed},
               {"learning_rate_step", state.step},
               {"loss_scale", 1.0},
               {"versions", state.step},
               {"microbatch_size", program.microbatchSize},
               {"model", program.model},
               {"schedule", program.schedule},
               {"options", state.options}};
  // Of the weights in each part, where these are not the steps.
  for (int rank = 0; rank < int(names.size()); ++rank)
    if (!names[rank].empty() && updates[rank] != state.step - state.lossScale.leftOut)
      json["updates"][partName(rank, program.ranks)] = updates[rank];
  const LossScale &scale = state.lossScale;
  if (scale.divisor > 0)
    json.update({{"loss_scale", scale.value},
                 {"loss_scale_steps", scale.goodSteps},
                 {"loss_divisor", scale.divisor},
                 {"steps_left_out", scale.leftOut}});
  writeText(folder / "state.json", json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

/// Taken away where the checkpoint fails: it would keep a full disk full.
struct Unfinished {
  const fs::path folder; ///< renamed where it does not; empty: another rank's

  ~Unfinished() {
    std::error_code ignored;
    if (!folder.empty())
      fs::remove_all(folder, ignored);
  }
};

std::string saveCheckpoint(const Program &program, const Executor &executor, Control &control,
                           const std::string &directory, const TrainingState &state) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%06lld", (long long)state.step);
  fs::path folder = fs::path(directory) / name,
           partial = fs::path(directory) / ("." + std::string(name) + ".partial"),
           old = fs::path(directory) / ("." + std::string(name) + ".old");
  std::vector<std::vector<std::string>> names;
  std::vector<const Memory *> own = ownMemories(program, control, names);
  requireFinite(program, executor, control, own, state.step);
  const Unfinished unfinished{program.rank == 0 ? partial : fs::path()};
  try {
    // 1. A fresh folder beside the final name.
    if (program.rank == 0) {
      fs::remove_all(partial);
      fs::create_directories(partial);
    }
    std::vector<std::string> all;
    control.gather("", all);
    // 2. Every rank's part, then the index.
    if (!own.empty() || program.rank == 0)
      writePart(program, executor, partial, own);
    control.gather(std::to_string(state.updates), all);
    std::vector<int64_t> updates;
    for (const std::string &made : all)
      updates.push_back(std::stoll(made));
    if (program.rank == 0) {
      writeIndexAndState(program, partial, names, updates, state);
      syncFolder(partial);
      // 3. Its name, last.
      fs::remove_all(old);
      if (fs::exists(folder))
        fs::rename(folder, old);
      fs::rename(partial, folder);
      syncFolder(directory);
      std::error_code ignored; // the checkpoint is there, whatever becomes of the one before
      fs::remove_all(old, ignored);
    }
    control.gather("", all);
  } catch (const fs::filesystem_error &error) {
    throw Error(directory, ": the checkpoint cannot be written: ", error.code().message());
  }
  return folder.string();
}

// Loading.

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

TrainingState readState(const Program &program, const std::string &checkpoint) {
  const fs::path path = fs::path(checkpoint) / "state.json";
  const Json json = readJson(path);
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

std::string newestCheckpoint(const std::string &given) {
  const fs::path path = given;
  std::error_code ignored;
  if (fs::exists(path / "state.json", ignored))
    return given;
  fs::path best;
  int64_t bestStep = -1;
  for (const auto &entry : fs::directory_iterator(path, ignored)) {
    std::string name = entry.path().filename().string();
    if (!name.starts_with("step-") || !fs::exists(entry.path() / "state.json", ignored))
      continue;
    int64_t step = std::strtoll(name.c_str() + 5, nullptr, 10);
    if (step > bestStep)
      best = entry.path(), bestStep = step;
  }
  if (bestStep < 0)
    throw Error(path.string(), ": holds no checkpoint, expected a folder step-NNNNNN with ",
                "state.json, or one that holds such folders; give what --save wrote");
  return best.string();
}

void loadTensors(const Program &program, const Executor &executor, const std::string &checkpoint,
                 TrainingState &state, std::map<std::string, int64_t> &fingerprints) {
  const fs::path path = checkpoint;
  std::map<std::string, std::string> files = readIndex(path / kIndex);
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
      throw Error((path / kIndex).string(), ": names no file for tensor '", memory.name,
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

} // namespace pdc::runtime
