#include "runtime/Error.h"
#include "runtime/Options.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace fs = std::filesystem;
using pdc::runtime::Error;
using Json = nlohmann::json;

namespace {

struct Request {
  fs::path folder;
  std::string transport = "local", hosts, hostfile;
  bool buildOnly = false;
  std::vector<std::string> forwarded; ///< options of the stage programs
  std::vector<std::string> launcher;  ///< words behind "--"
};

struct PlanFacts {
  int ranks = 1;
  std::string model;
};

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// The number of ranks, from plan.json.
PlanFacts readPlan(const fs::path &folder) {
  fs::path path = folder / "plan.json";
  std::ifstream file(path);
  Json plan = Json::parse(file, nullptr, false);
  if (!plan.is_object() || !plan.contains("stages") || !plan["stages"].is_array())
    throw Error(path.string(), ": is missing or no plan; give the folder that pdc wrote "
                               "(MODEL.pdc)");
  PlanFacts facts;
  try {
    facts.model = plan.value("model", "");
    int last = -1;
    for (const Json &stage : plan["stages"])
      for (int rank : stage.at("ranks"))
        last = std::max(last, rank);
    facts.ranks = last + 1;
  } catch (const Json::exception &error) {
    throw Error(path.string(), ": field 'stages' is damaged: ", error.what());
  }
  if (facts.ranks < 1 || facts.ranks > 4096)
    throw Error(path.string(), ": names ", facts.ranks, " ranks; run pdc again");
  return facts;
}

/// Runs a command with its output in `log`; its exit code.
int runQuietly(const std::vector<std::string> &words, const fs::path &log) {
  std::vector<char *> argv;
  for (const std::string &word : words)
    argv.push_back(const_cast<char *>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = fork();
  if (child == 0) {
    FILE *file = std::fopen(log.c_str(), "a");
    if (file) {
      dup2(fileno(file), STDOUT_FILENO);
      dup2(fileno(file), STDERR_FILENO);
    }
    execvp(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  while (child < 0 || (waitpid(child, &status, 0) < 0 && errno == EINTR))
    if (child < 0)
      throw Error("cannot start ", words[0], ": ", std::strerror(errno));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void buildStep(const std::vector<std::string> &words, const fs::path &log) {
  int code = runQuietly(words, log);
  if (code == 0)
    return;
  std::ifstream file(log);
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

/// The build tool knows what is stale; nothing happens when nothing is.
void build(const Request &request) {
  fs::path folder = request.folder / "build", log = request.folder / "build.log";
  if (!fs::exists(request.folder / "CMakeLists.txt"))
    throw Error(request.folder.string(), ": holds no CMakeLists.txt; give the folder that pdc "
                                         "wrote (MODEL.pdc)");
  fs::remove(log);
  // A copied or moved folder brings a build of the sources where it was.
  if (fs::exists(folder) && !isBuildOf(folder, request.folder))
    fs::remove_all(folder);
  bool fresh = !fs::exists(folder / "CMakeCache.txt");
  if (fresh)
    std::cout << "building the stages of " << request.folder.string() << " ..." << std::endl;
  if (fresh) {
    std::vector<std::string> configure = {"cmake", "-S", request.folder, "-B", folder};
    if (runQuietly({"ninja", "--version"}, "/dev/null") == 0)
      configure.insert(configure.end(), {"-G", "Ninja"});
    buildStep(configure, log);
  }
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  buildStep({"cmake", "--build", folder, "--parallel", std::to_string(jobs)}, log);
}

std::string binary(const Request &request, const std::string &name) {
  fs::path path = request.folder / "build" / name;
  if (!fs::exists(path))
    throw Error(path.string(), ": is not there after the build; run pdc again");
  return path.string();
}

bool isRank() {
  return !environment("OMPI_COMM_WORLD_RANK").empty() || !environment("PMI_RANK").empty() ||
         !environment("SLURM_PROCID").empty();
}

/// The words behind a stage program's name.
std::vector<std::string> programOptions(const Request &request) {
  std::vector<std::string> words = request.forwarded;
  words.insert(words.end(), {"--transport", request.transport});
  bool chosen = std::any_of(words.begin(), words.end(), [](const std::string &word) {
    return word.starts_with("--progress");
  });
  // mpirun gives rank 0 a terminal of its own, whatever stands behind it.
  if (!chosen)
    words.insert(words.end(), {"--progress", isatty(STDOUT_FILENO) ? "terminal" : "plain"});
  return words;
}

void append(std::vector<std::string> &words, const std::vector<std::string> &more) {
  words.insert(words.end(), more.begin(), more.end());
}

std::vector<std::string> mpirunCommand(const Request &request, const PlanFacts &plan) {
  std::vector<std::string> words = {"mpirun"};
  if (geteuid() == 0)
    words.push_back("--allow-run-as-root");
  // Bound ranks would all land on core 0 where several mpiruns share a machine.
  append(words, {"--bind-to", "none"});
  bool oneHost = request.hosts.empty() && request.hostfile.empty();
  if (oneHost && plan.ranks > int(std::thread::hardware_concurrency()))
    append(words, {"--oversubscribe", "--mca", "mpi_yield_when_idle", "1"});
  if (!request.hosts.empty())
    append(words, {"--host", request.hosts});
  if (!request.hostfile.empty())
    append(words, {"--hostfile", request.hostfile});
  append(words, request.launcher);
  for (int rank = 0; rank < plan.ranks; ++rank) {
    append(words, {rank ? ":" : "-n", rank ? "-n" : "1"});
    if (rank)
      words.push_back("1");
    words.push_back(binary(request, "stage_" + std::to_string(rank)));
    append(words, programOptions(request));
  }
  return words;
}

/// The command takes this process's place: signals and exit code are its own.
int become(const std::vector<std::string> &words) {
  std::vector<char *> argv;
  for (const std::string &word : words)
    argv.push_back(const_cast<char *>(word.c_str()));
  argv.push_back(nullptr);
  std::cout.flush();
  execvp(argv[0], argv.data());
  throw Error("cannot start ", words[0], ": ", std::strerror(errno),
              words[0] == "mpirun" ? "; install openmpi-bin or use --transport local" : "");
}

pid_t supervised = 0;
void forwardSignal(int signal) { kill(supervised, signal); }

/// Runs a launcher, whose exit code is that of a signal or of its own making, as 0 or 1. Signals go
/// on to it.
int supervise(const std::vector<std::string> &words) {
  supervised = fork();
  if (supervised < 0)
    throw Error("cannot start ", words[0], ": ", std::strerror(errno));
  if (supervised == 0) {
    // The ranks do not outlive whoever started them.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    try {
      become(words);
    } catch (const Error &error) {
      std::cerr << "error: " << error.what() << std::endl;
      _exit(1);
    }
  }
  std::signal(SIGINT, forwardSignal);
  std::signal(SIGTERM, forwardSignal);
  int status = 0;
  while (waitpid(supervised, &status, 0) < 0 && errno == EINTR)
    ;
  bool usage = WIFEXITED(status) && WEXITSTATUS(status) == 2;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : usage ? 2 : 1;
}

int run(const Request &request) {
  PlanFacts plan = readPlan(request.folder);
  if (request.transport == "mpi" && isRank()) {
    // Started by mpirun or srun: this process is a rank, and its binary was built before.
    std::vector<std::string> words = {binary(request, "all_stages")};
    append(words, programOptions(request));
    return become(words);
  }
  build(request);
  if (request.buildOnly)
    return 0;
  if (request.transport == "mpi")
    return supervise(mpirunCommand(request, plan));
  std::vector<std::string> words = {binary(request, "all_stages")};
  append(words, programOptions(request));
  return become(words);
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
  try {
    app.parse(own, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  // 3. Build and start.
  try {
    request.folder = folder;
    if (!options.transport.empty())
      request.transport = options.transport;
    else if (!request.hosts.empty() || !request.hostfile.empty() || isRank())
      request.transport = "mpi";
    request.forwarded = forwardedWords(app);
    return run(request);
  } catch (const std::exception &error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
}
