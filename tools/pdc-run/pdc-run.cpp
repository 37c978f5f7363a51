#include "runtime/Control.h"
#include "runtime/Cores.h"
#include "runtime/Error.h"
#include "runtime/Main.h"
#include "runtime/Options.h"
#include "runtime/RankPlace.h"
#include "tools/Programs.h"
#include "tools/pdc-run/Processes.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/file.h>
#include <unistd.h>

namespace fs = std::filesystem;
using pdc::become, pdc::ranksOfThisHost, pdc::startProgram, pdc::supervise, pdc::waitForProgram;
using pdc::runtime::Error, pdc::runtime::Launcher, pdc::runtime::launcherOfThis,
    pdc::runtime::startedByMpi;
using Json = nlohmann::json;

namespace {

/// The program that is any rank of the plan, or all of them as threads.
const std::string kAllStages = "all_stages";

struct Request {
  fs::path folder;
  std::string transport = "local", hosts, hostfile;
  bool buildOnly = false;
  std::vector<std::string> forwarded; ///< options of the stage programs
  std::vector<std::string> launcher;  ///< words behind "--"
};

/// From plan.json.
int numberOfRanks(const fs::path &folder) {
  fs::path path = folder / "plan.json";
  if (!fs::is_directory(folder))
    throw Error(folder.string(), ": is no folder; give the one that pdc wrote (MODEL.pdc)");
  std::ifstream file(path);
  if (!file)
    throw Error(path.string(), ": cannot be read: ", std::strerror(errno),
                "; give the folder that pdc wrote (MODEL.pdc)");
  Json plan;
  try {
    plan = Json::parse(file);
  } catch (const Json::exception &error) {
    // Behind the library's own name of the error.
    const std::string text = error.what();
    throw Error(path.string(), ": is damaged: ", text.substr(text.find("] ") + 2),
                "; run pdc again");
  }
  if (!plan.is_object() || !plan.contains("stages") || !plan["stages"].is_array())
    throw Error(path.string(), ": is no plan; give the folder that pdc wrote (MODEL.pdc)");
  std::set<int> ranks;
  try {
    for (const Json &stage : plan["stages"])
      for (int rank : stage.at("ranks").get<std::vector<int>>())
        ranks.insert(rank);
  } catch (const Json::exception &error) {
    throw Error(path.string(), ": field 'stages' is damaged: ", error.what());
  }
  const int count = int(ranks.size());
  bool isNumbered = count > 0 && *ranks.begin() == 0 && *ranks.rbegin() == count - 1;
  if (!isNumbered || count > 4096)
    throw Error(path.string(), ": names ", count, " ranks; run pdc again");
  return count;
}

void append(std::vector<std::string> &words, const std::vector<std::string> &more) {
  words.insert(words.end(), more.begin(), more.end());
}

void buildStep(const std::vector<std::string> &words, const fs::path &log) {
  int code = waitForProgram(startProgram(words, log));
  if (code == 0)
    return;
  std::ifstream file(log);
  if (file.peek() != EOF) // of nothing, cerr would be left failed
    std::cerr << file.rdbuf();
  if (code == 127)
    throw Error(words[0], " is not installed, and the stage sources need it; run tools/setup");
  throw Error("the stage sources do not build (", log.string(), "); the output stands above");
}

bool isBuildOf(const fs::path &build, const fs::path &sources) {
  std::ifstream cache(build / "CMakeCache.txt");
  const std::string key = "CMAKE_HOME_DIRECTORY:INTERNAL=";
  for (std::string line; std::getline(cache, line);)
    if (line.starts_with(key))
      return line.substr(key.size()) == fs::canonical(sources).string();
  return false;
}

/// One pdc-run at a time builds a folder. Beside `build`, which may be removed whole; where files
/// cannot be locked, nobody waits.
class BuildLock {
public:
  explicit BuildLock(const fs::path &folder)
      : file(open((folder / ".build.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
      return;
    std::cout << "another pdc-run builds " << folder.string() << "; waiting" << std::endl;
    while (flock(file, LOCK_EX) != 0 && errno == EINTR)
      ;
  }
  ~BuildLock() { close(file); }
  BuildLock(const BuildLock &) = delete;
  BuildLock &operator=(const BuildLock &) = delete;

private:
  const int file;
};

/// The build tool knows what is stale; nothing happens when nothing is.
void build(const Request &request) {
  fs::path folder = request.folder / "build", log = request.folder / "build.log";
  if (!fs::exists(request.folder / "CMakeLists.txt"))
    throw Error(request.folder.string(), ": holds no CMakeLists.txt; give the folder that pdc "
                                         "wrote (MODEL.pdc)");
  if (access(request.folder.c_str(), W_OK) != 0) {
    for (const char *program : {"all_stages", "stage_0"})
      if (!fs::exists(folder / program) && (request.buildOnly || program == kAllStages))
        throw Error(request.folder.string(), ": cannot be written, and ", program,
                    " is not built yet; copy it to where it can");
    std::cout << request.folder.string() << " cannot be written: takes what is built there"
              << std::endl;
    return;
  }
  BuildLock lock(request.folder);
  fs::remove(log);
  // A copied or moved folder brings a build of the sources where it was.
  if (fs::exists(folder) && !isBuildOf(folder, request.folder))
    fs::remove_all(folder);
  bool fresh = !fs::exists(folder / "CMakeCache.txt");
  if (fresh)
    std::cout << "building the stages of " << request.folder.string() << " ..." << std::endl;
  if (fresh) {
    std::vector<std::string> configure = {"cmake", "-S", request.folder, "-B", folder};
    if (waitForProgram(startProgram({"ninja", "--version"}, "/dev/null")) == 0)
      configure.insert(configure.end(), {"-G", "Ninja"});
    try {
      buildStep(configure, log);
    } catch (const Error &) {
      // What is left of it would fail another time, whatever has been mended.
      fs::remove_all(folder);
      throw;
    }
  }
  std::vector<std::string> words = {"cmake", "--build", folder, "--parallel",
                                    std::to_string(pdc::runtime::usableCores())};
  // The programs of single stages are for those who start them by hand; there are none of old
  // plans.
  if (!request.buildOnly && !fs::exists(folder / "stage_0"))
    append(words, {"--target", kAllStages});
  buildStep(words, log);
}

/// Whether a launcher has started this process, which is then a rank.
bool isRank(const Request &request) {
  return (request.transport == "mpi" && startedByMpi()) ||
         (request.transport == "nccl" && launcherOfThis() != Launcher::none);
}

std::string binary(const Request &request, const std::string &name) {
  fs::path path = request.folder / "build" / name;
  if (!fs::exists(path))
    throw Error(path.string(), isRank(request)
                                   ? ": is not built, and this is one of several ranks, which "
                                     "build nothing; build before they start: pdc-run " +
                                         request.folder.string() + " --build-only"
                                   : ": is not there after the build; run pdc again");
  return path.string();
}

/// The words behind a stage program's name.
std::vector<std::string> programOptions(const Request &request) {
  std::vector<std::string> words = request.forwarded;
  words.insert(words.end(), {"--transport", request.transport});
  bool chosen = std::any_of(words.begin(), words.end(),
                            [](const std::string &word) { return word.starts_with("--progress"); });
  // mpirun gives rank 0 a terminal of its own, whatever stands behind it.
  if (!chosen)
    words.insert(words.end(), {"--progress", isatty(STDOUT_FILENO) ? "terminal" : "plain"});
  return words;
}

std::vector<std::string> mpirunCommand(const Request &request, int ranks) {
  // The ranks tell what goes wrong themselves.
  std::vector<std::string> words = {"mpirun", "--quiet"};
  if (geteuid() == 0)
    words.push_back("--allow-run-as-root");
  // Bound ranks would all land on core 0 where several mpiruns share a machine.
  append(words, {"--bind-to", "none"});
  bool oneHost = request.hosts.empty() && request.hostfile.empty();
  if (oneHost && ranks > pdc::runtime::usableCores())
    append(words, {"--oversubscribe", "--mca", "mpi_yield_when_idle", "1"});
  if (!request.hosts.empty())
    append(words, {"--host", request.hosts});
  if (!request.hostfile.empty())
    append(words, {"--hostfile", request.hostfile});
  append(words, request.launcher);
  append(words, {"-n", std::to_string(ranks), binary(request, kAllStages)});
  append(words, programOptions(request));
  return words;
}

/// mpirun keeps quiet, for ranks say what goes wrong: where none has begun, nobody has.
int superviseMpi(const std::vector<std::string> &words) {
  std::string sign = (fs::temp_directory_path() / "pdc-run-XXXXXX").string();
  const int file = mkstemp(sign.data());
  if (file >= 0)
    close(file);
  const int code = supervise({{words, {{pdc::runtime::kBeganSign, sign}}}});
  const bool hasBegun = unlink(sign.c_str()) != 0;
  if (code == 1 && !hasBegun) {
    std::string command;
    for (const std::string &word : words)
      if (word != "--quiet")
        command += " " + word;
    throw Error("mpirun ended before a rank began on this host; to see why, run", command);
  }
  return code;
}

int run(const Request &request) {
  const int ranks = numberOfRanks(request.folder);
  if (isRank(request) && !request.buildOnly) {
    // Its binary was built before.
    std::vector<std::string> words = {binary(request, kAllStages)};
    append(words, programOptions(request));
    return become(words);
  }
  build(request);
  if (request.buildOnly)
    return 0;
  if (request.transport == "mpi")
    return superviseMpi(mpirunCommand(request, ranks));
  std::vector<std::string> words = {binary(request, kAllStages)};
  append(words, programOptions(request));
  return request.transport == "nccl" ? supervise(ranksOfThisHost(words, ranks)) : become(words);
}

/// The words of the stage programs: all but the folder and what only pdc-run knows.
std::vector<std::string> forwardedWords(const CLI::App &app) {
  std::vector<std::string> words;
  for (const CLI::Option *option : app.get_options()) {
    static const char *kOwn[] = {"--help", "--hosts", "--hostfile", "--transport", "--build-only"};
    std::string name = option->get_name();
    bool own = option->get_positional() || option->count() == 0;
    for (const char *known : kOwn)
      own = own || name == known;
    if (own)
      continue;
    if (option->get_expected_max() == 0)
      words.push_back(name);
    else
      for (const std::string &value : option->results())
        words.push_back(name + "=" + value);
  }
  return words;
}

void chooseTransport(const pdc::runtime::Options &options, Request &request) {
  bool hosts = !request.hosts.empty() || !request.hostfile.empty();
  if (!options.transport.empty())
    request.transport = options.transport;
  else if (hosts || startedByMpi())
    request.transport = "mpi";
  if (request.transport == "mpi")
    return;
  if (hosts)
    throw CLI::ValidationError("--hosts and --hostfile are for mpirun, and --transport is " +
                               request.transport + "; leave --transport out");
  if (!request.launcher.empty())
    throw CLI::ValidationError("-- " + request.launcher[0] +
                               ": words behind -- go to mpirun; add --transport mpi");
}

} // namespace

int main(int argc, char **argv) {
  // 1. What stands behind "--" is the launcher's.
  Request request;
  int own = argc;
  for (int i = 1; i < argc; ++i)
    if (std::strcmp(argv[i], "--") == 0) {
      own = i;
      request.launcher.assign(argv + i + 1, argv + argc);
      break;
    }
  // 2. The stage programs' options are checked here, before anything is built.
  CLI::App app("pdc-run: builds the stage programs that pdc wrote and trains with them", "pdc-run");
  pdc::runtime::Options options;
  std::string folder;
  app.add_option("DIR", folder, "the folder that pdc wrote")->required();
  pdc::runtime::addOptions(app, options);
  app.add_option("--hosts", request.hosts, "for mpirun: host[:ranks],...");
  app.add_option("--hostfile", request.hostfile, "for mpirun");
  app.add_flag("--build-only", request.buildOnly, "build, and end");
  app.footer("Words behind -- go to mpirun.");
  app.parse_complete_callback([&] { chooseTransport(options, request); });
  if (std::optional<int> code = pdc::runtime::parse(app, own, argv))
    return *code;
  // 3. Build and start.
  try {
    request.folder = folder;
    request.forwarded = forwardedWords(app);
    return run(request);
  } catch (const std::exception &error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
}
