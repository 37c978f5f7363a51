#include "runtime/Tuning.h"

#include "runtime/Control.h"
#include "runtime/Error.h"
#include "runtime/ReplacedFile.h"

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <utility>
#include <vector>

namespace pdc::runtime {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr const char *kFormat = "pdc tuning 1";
/// Of the first way's seconds, and in seconds: what is nearer to them is noise, which the ranking
/// outweighs. Events of GPUs tell half a microsecond.
constexpr double kClearlyFaster = 0.98, kClearGain = 1e-6;

static std::string nameOf(int rank) { return "rank-" + std::to_string(rank) + ".json"; }

Tuning::Tuning(std::string device, Clock clock, std::string folder, int rank)
    : device(std::move(device)), clock(std::move(clock)), folder(std::move(folder)), rank(rank) {
  read();
}

std::optional<size_t> Tuning::choose(const std::string &problem, size_t ways,
                                     const std::function<bool(size_t way)> &start) {
  if (const std::optional<size_t> way = known(problem); way && *way < ways && start(*way))
    return way;
  if (ways == 1)
    return start(0) ? std::optional<size_t>(0) : std::nullopt;
  // A way may be several kernels, each of which is chosen when it first starts.
  const bool isWithin = std::exchange(isMeasuring, true);
  const Seconds begin = now();
  const std::optional<size_t> taken = measure(problem, ways, start);
  if (!isWithin)
    spent += now() - begin;
  isMeasuring = isWithin;
  if (!taken || !start(*taken))
    return {};
  own[keyOf(problem)] = *taken;
  ++problems;
  changed += *taken != 0;
  isKept = false;
  return taken;
}

/// All run once before the first is timed: a device that was idle is slow, and a way's first run
/// may load what it needs.
std::optional<size_t> Tuning::measure(const std::string &problem, size_t ways,
                                      const std::function<bool(size_t way)> &start) {
  std::vector<size_t> running;
  for (size_t way = 0; way < ways; ++way)
    if (start(way))
      running.push_back(way);
  std::optional<size_t> first, best;
  double ofFirst = 0, least = std::numeric_limits<double>::infinity();
  for (const size_t way : running) {
    bool runs = true;
    const double seconds = secondsOf(problem, way, [&] { runs = start(way) && runs; });
    if (!runs)
      continue;
    ++measured;
    if (!first)
      first = way, ofFirst = seconds;
    if (seconds < least)
      best = way, least = seconds;
  }
  return least <= kClearlyFaster * ofFirst && ofFirst - least >= kClearGain ? best : first;
}

/// After a way that breaks the device nothing runs any more.
double Tuning::secondsOf(const std::string &problem, size_t way,
                         const std::function<void()> &work) {
  try {
    return clock(work);
  } catch (const Error &error) {
    throw Error("--tune: kernel ", way, " for ", problem, ": ", error.what(),
                "; leave --tune out, which takes the library's first");
  }
}

std::optional<size_t> Tuning::known(const std::string &problem) const {
  for (const Choices *choices : {&own, &others})
    if (const auto found = choices->find(keyOf(problem)); found != choices->end())
      return found->second;
  return {};
}

std::string Tuning::file() const { return (fs::path(folder) / nameOf(rank)).string(); }

// The folder.

/// The rank whose file it is; -1: none's.
static int rankOf(const std::string &name) {
  int rank = -1;
  if (name.starts_with("rank-"))
    std::from_chars(name.data() + 5, name.data() + name.size(), rank);
  return rank >= 0 && name == nameOf(rank) ? rank : -1;
}

static std::map<std::string, size_t> readChoices(const fs::path &path) {
  auto refuse = [&](const std::string &why) {
    return Error(path.string(), ": ", why,
                 "; remove the file, which has its problems measured again, or give --tune another "
                 "folder");
  };
  std::ifstream text(path, std::ios::binary);
  if (!text)
    throw refuse("cannot be read");
  const Json json = Json::parse(text, nullptr, false);
  const bool isOurs = json.is_object() && json.contains("format") && json["format"] == kFormat &&
                      json.contains("choices") && json["choices"].is_object();
  if (!isOurs)
    throw refuse("is damaged or not of this program, expected a JSON object whose 'format' is '" +
                 std::string(kFormat) + "', with an object 'choices'");
  std::map<std::string, size_t> choices;
  for (const auto &[problem, way] : json["choices"].items()) {
    if (!way.is_number_unsigned())
      throw refuse("the choice for '" + problem + "' is " +
                   way.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60) +
                   ", expected a whole number");
    choices[problem] = way.get<size_t>();
  }
  return choices;
}

void Tuning::read() {
  std::error_code problem;
  std::map<int, fs::path> files;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem))
    if (const int found = rankOf(entry->path().filename().string()); found >= 0)
      files[found] = entry->path();
  if (problem)
    throw Error("--tune ", folder, ": cannot be read: ", problem.message(),
                "; give a folder that can");
  for (const auto &[found, path] : files)
    if (found == rank)
      own = readChoices(path);
    else
      others.merge(readChoices(path)); // keeps what an earlier one said
}

/// Two runs may keep what they find in one folder: what another has written meanwhile stays.
bool Tuning::write() const {
  Choices all = own;
  try {
    if (fs::exists(file()))
      all.merge(readChoices(file()));
  } catch (const Error &) { // damaged meanwhile
  }
  ReplacedFile replaced(file(), "." + std::to_string(getpid()) + ".part");
  const Json json = {{"format", kFormat}, {"choices", all}};
  replaced.text() << json.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
  return replaced.takePlace();
}

void Tuning::tell() {
  std::fprintf(stderr,
               "rank %d measured %zu kernels in %.1f s: for %zu of %zu problems it takes another "
               "than the library's first; kept in %s\n",
               rank, measured, spent, changed, problems, file().c_str());
  measured = problems = changed = 0;
  spent = 0;
}

/// What cannot be written costs the next run some seconds, and this one nothing.
void Tuning::keep() {
  if (std::exchange(isKept, true))
    return;
  if (write())
    tell();
  else
    std::fprintf(stderr, "warning: %s: cannot be written; the next run will measure again\n",
                 file().c_str());
}

} // namespace pdc::runtime
