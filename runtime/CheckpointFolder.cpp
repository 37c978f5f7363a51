#include "runtime/CheckpointFolder.h"

#include "runtime/Error.h"
#include "runtime/ReplacedFile.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <vector>

namespace pdc::runtime {

namespace fs = std::filesystem;

namespace {

constexpr const char *kMark = ".run";

struct Saved {
  int64_t step;
  fs::path path;
};

/// Those that have a state, the highest step first.
std::vector<Saved> savedIn(const fs::path &folder) {
  std::vector<Saved> found;
  std::error_code ignored;
  for (const auto &entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("step-") || !fs::exists(entry.path() / "state.json", ignored))
      continue;
    Saved saved{0, entry.path()};
    auto [end, problem] = std::from_chars(name.data() + 5, name.data() + name.size(), saved.step);
    if (problem == std::errc() && end == name.data() + name.size())
      found.push_back(std::move(saved));
  }
  std::ranges::sort(found, std::ranges::greater{}, &Saved::step);
  return found;
}

/// A field of a file, which is a text; nothing where there is no such file or it is damaged.
std::optional<std::string> textIn(const fs::path &file, const char *field) {
  std::ifstream stream(file);
  const auto json = nlohmann::json::parse(stream, nullptr, false);
  if (!json.is_object())
    return std::nullopt;
  const auto found = json.find(field);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Those that the run of the mark may go on from, the newest first. A damaged one counts as its
/// own: who takes it tells of the damage.
std::vector<fs::path> candidates(const fs::path &folder) {
  const std::optional<std::string> run = textIn(folder / kMark, "run");
  const std::string from = textIn(folder / kMark, "from").value_or("");
  std::vector<fs::path> own;
  std::string earlier; // whose run went on
  bool isBehind = false;
  for (const Saved &saved : savedIn(folder)) {
    const std::string of = textIn(saved.path / "state.json", "run").value_or(run.value_or(""));
    if (!isBehind && !from.empty() && saved.path.filename() == from) {
      isBehind = true;
      earlier = of;
    }
    if (!run || of == *run || (isBehind && of == earlier))
      own.push_back(saved.path);
  }
  return own;
}

} // namespace

std::string beginSaving(const std::string &folder, const std::string &resumed) {
  std::random_device draw;
  char run[40];
  std::snprintf(run, sizeof run, "%08x%08x", unsigned(draw()), unsigned(draw()));
  std::error_code ignored;
  // A folder by name ends in its own, with a slash behind it or not.
  fs::path from = fs::path(resumed) / "";
  from = from.parent_path();
  const bool isHere =
      !resumed.empty() &&
      fs::equivalent(from.parent_path().empty() ? "." : from.parent_path(), folder, ignored);
  const nlohmann::json mark = {{"run", run},
                               {"from", isHere ? from.filename().string() : std::string()}};
  ReplacedFile file(fs::path(folder) / kMark);
  file.text() << mark.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  if (!file.takePlace())
    throw Error("--save ", folder, ": cannot be written; give a folder that can");
  return run;
}

std::string newestCheckpoint(const std::string &given) {
  const fs::path path = given;
  std::error_code ignored;
  if (fs::exists(path / "state.json", ignored))
    return given;
  const std::vector<fs::path> own = candidates(path);
  if (!own.empty())
    return own.front().string();
  if (const std::vector<Saved> others = savedIn(path); !others.empty())
    throw Error(path.string(), ": the run that began to save there last has saved nothing, and ",
                others.front().path.filename().string(),
                " is of another run; to go on from that one give --resume ",
                others.front().path.string());
  throw Error(path.string(), ": holds no checkpoint, expected a folder step-NNNNNN with ",
              "state.json, or one that holds such folders; give what --save wrote");
}

std::string checkpointBefore(const std::string &checkpoint) {
  const fs::path path = (fs::path(checkpoint) / "").parent_path(), folder = path.parent_path();
  const std::vector<fs::path> own = candidates(folder.empty() ? "." : folder);
  auto here = std::ranges::find(own, path.filename(), &fs::path::filename);
  return here == own.end() || ++here == own.end() ? "" : here->string();
}

std::string checkpointBeyond(const std::string &folder, int64_t step) {
  const std::vector<Saved> saved = savedIn(folder);
  return saved.empty() || saved.front().step <= step ? "" : saved.front().path.string();
}

} // namespace pdc::runtime
