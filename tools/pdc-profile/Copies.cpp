#include "tools/pdc-profile/Copies.h"

#include "compiler/Error.h"
#include "compiler/plan/Files.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace pdc {

static int codeOf(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Between fork and exec: other threads may have held any lock.
[[noreturn]] static void becomeProgram(char *const *words, const char *log, pid_t parent,
                                       unsigned seconds) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(127);
  alarm(seconds);
  int input = open("/dev/null", O_RDONLY);
  int output = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
      dup2(output, STDERR_FILENO) >= 0)
    execv(words[0], words);
  _exit(127);
}

pid_t startProgram(const std::vector<std::string> &words, const fs::path &log,
                   std::chrono::seconds most) {
  std::vector<char *> argv;
  for (const std::string &word : words)
    argv.push_back(const_cast<char *>(word.c_str()));
  argv.push_back(nullptr);
  pid_t parent = getpid(), child = fork();
  if (child == 0)
    becomeProgram(argv.data(), log.c_str(), parent, static_cast<unsigned>(most.count()));
  if (child < 0)
    throw Error("cannot run " + words[0] + ": " + std::strerror(errno));
  return child;
}

int waitForProgram(pid_t program) {
  int status = 0;
  while (waitpid(program, &status, 0) < 0)
    if (errno != EINTR)
      throw Error("cannot wait for a program: " + std::string(std::strerror(errno)));
  return codeOf(status);
}

Copies::Copies(const fs::path &folder, const std::vector<std::string> &data, int count,
               std::chrono::seconds most)
    : folder(folder) {
  std::vector<std::string> words{(folder / "build" / "all_stages").string(),
                                 "--transport",
                                 "local",
                                 "--progress",
                                 "none",
                                 "--steps",
                                 "1000000000"};
  for (const std::string &text : data)
    words.push_back("--data=" + text);
  for (int copy = 0; copy < count; ++copy)
    running.push_back(startProgram(words, logOf(running.size()), most));
}

Copies::~Copies() {
  for (pid_t copy : running)
    if (copy > 0)
      kill(copy, SIGKILL);
  for (pid_t copy : running)
    if (copy > 0)
      waitpid(copy, nullptr, 0);
}

void Copies::check() {
  for (size_t copy = 0; copy < running.size(); ++copy) {
    int status = 0;
    if (waitpid(running[copy], &status, WNOHANG) == 0)
      continue;
    running[copy] = 0;
    throw Error("a copy of the measuring program, which was to compute beside it, ended before it "
                "with code " +
                std::to_string(codeOf(status)) + "; its output:\n" + readTextFile(logOf(copy)));
  }
}

fs::path Copies::logOf(size_t copy) const {
  return folder / ("copy-" + std::to_string(copy) + ".log");
}

} // namespace pdc
