#include "runtime/Checkpoint.h"

#include "runtime/Error.h"
#include "runtime/MemoryTensors.h"
#include "runtime/SharedFolder.h"
#include "runtime/SmallFloats.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <unistd.h>

namespace pdc::runtime {

using Json = nlohmann::json;
namespace fs = std::filesystem;

bool isKept(const Memory &memory) {
  return memory.role == Role::constant && memory.initial == Initial::file;
}

bool isSaved(const Memory &memory) {
  return memory.role == Role::weight || memory.role == Role::optimizer ||
         memory.role == Role::state || isKept(memory);
}

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
  writeText(folder / kCheckpointIndex,
            index.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
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
               {"options", state.options},
               {"run", state.run},
               {"samples", state.samples},
               {"data", state.dataFiles}};
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

/// `folder` is at no time without a checkpoint that it had, where the file system exchanges names;
/// the one before it is then `partial`.
static void takePlace(const fs::path &partial, const fs::path &folder) {
  if (renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) == 0)
    return;
  const fs::path old = partial.parent_path() / ("." + folder.filename().string() + ".old");
  fs::remove_all(old);
  if (fs::exists(folder))
    fs::rename(folder, old);
  fs::rename(partial, folder);
  std::error_code ignored; // the checkpoint is there, whatever becomes of the one before
  fs::remove_all(old, ignored);
}

/// Taken away in the end: where the checkpoint fails it would keep a full disk full, and else it is
/// the one that stood there before.
struct Unfinished {
  const fs::path folder; ///< empty: another rank's

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
           partial = fs::path(directory) / ("." + std::string(name) + ".partial");
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
      takePlace(partial, folder);
      syncFolder(directory);
    }
    control.gather("", all);
  } catch (const fs::filesystem_error &error) {
    throw Error(directory, ": the checkpoint cannot be written: ", error.code().message());
  }
  return folder.string();
}

} // namespace pdc::runtime
