#include "tools/pdc-run/Processes.h"

#include "runtime/Control.h"
#include "runtime/Error.h"
#include "runtime/Signals.h"
#include "tools/Programs.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace pdc {

using runtime::Error;

int become(const std::vector<std::string> &words) {
  std::cout.flush();
  execvp(words[0].c_str(), argumentsOf(words).data());
  throw Error("cannot start ", words[0], ": ", std::strerror(errno),
              words[0] == "mpirun" ? "; install openmpi-bin or use --transport local" : "");
}

namespace {

pid_t supervised = 0; ///< as kill takes it: one process, or a group of them
volatile sig_atomic_t asked = 0, insisted = 0;

void say(std::string_view text) {
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

/// mpirun kills its ranks a second after SIGINT or SIGTERM, but passes SIGUSR1 and SIGUSR2 on: the
/// ranks then finish their step and save. What comes while mpirun starts up is lost, so the request
/// is repeated. A second signal ends mpirun, and ranks, at once.
void onSignal(int signal) {
  static double first = 0;
  double now = pdc::runtime::now();
  if (!asked) {
    asked = runtime::askedBy(signal);
    first = now;
    say("\nasked to end: the ranks finish the step, and save where --save was given; ask again to "
        "end at once\n");
  } else if (signal != SIGALRM && insisted) {
    kill(supervised, SIGKILL);
  } else if (signal != SIGALRM && now - first > 0.3) { // some signal a process and its group
    insisted = 1;
    kill(supervised, SIGTERM);
  }
  if (!insisted) {
    kill(supervised, asked == SIGINT ? SIGUSR1 : SIGUSR2);
    alarm(1);
  }
}

/// What is supervised does not share the terminal's signals: what stops and continues this process
/// does so for the ranks.
void onStop(int signal) {
  kill(supervised, signal);
  if (signal == SIGTSTP)
    raise(SIGSTOP);
}

/// In the group `group`; 0: in one of its own.
pid_t start(const Process &process, pid_t group) {
  pid_t child = fork();
  if (child < 0)
    throw Error("cannot start ", process.words[0], ": ", std::strerror(errno));
  if (child > 0) {
    setpgid(child, group);
    return child;
  }
  // The ranks do not outlive whoever started them.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setpgid(0, group);
  if (int nothing = open("/dev/null", O_RDONLY); nothing >= 0)
    dup2(nothing, STDIN_FILENO);
  for (const auto &[name, value] : process.environment)
    setenv(name.c_str(), value.c_str(), 1);
  try {
    become(process.words);
  } catch (const Error &error) {
    std::cerr << "error: " << error.what() << std::endl;
  }
  _exit(1);
}

/// The exit code of the first that did not end well.
int waitFor(const std::vector<pid_t> &started) {
  int first = 0;
  for (pid_t process : started) {
    int status = 0;
    while (waitpid(process, &status, 0) < 0 && errno == EINTR)
      ;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    first = first == 0 ? code : first;
  }
  return first;
}

} // namespace

int supervise(const std::vector<Process> &processes) {
  std::vector<pid_t> started;
  for (const Process &process : processes)
    started.push_back(start(process, started.empty() ? 0 : started.front()));
  supervised = started.size() > 1 ? -started.front() : started.front();
  runtime::handleSignals({SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGALRM}, onSignal);
  for (int signal : {SIGTSTP, SIGCONT})
    std::signal(signal, onStop);
  const int code = waitFor(started);
  // Ranks that were asked to end do so well, or die of it where they were still starting up.
  if (insisted || (asked && code != 1))
    return 128 + asked;
  bool stopped = code == 128 + SIGINT || code == 128 + SIGTERM;
  return code == 0 || code == 2 || stopped ? code : 1;
}

/// The port is free now; whoever takes it before rank 0 does makes that rank say so.
std::vector<Process> ranksOfThisHost(const std::vector<std::string> &words, int ranks) {
  const int port = runtime::Listener({.rank = 0, .ranks = ranks, .address = "127.0.0.1"}).port();
  std::vector<Process> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string number = std::to_string(rank);
    processes.push_back({words,
                         {{"RANK", number},
                          {"LOCAL_RANK", number},
                          {"WORLD_SIZE", std::to_string(ranks)},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"MASTER_PORT", std::to_string(port)}}});
  }
  return processes;
}

} // namespace pdc
