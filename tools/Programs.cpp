#include "tools/Programs.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace pdc {

std::vector<char *> argumentsOf(const std::vector<std::string> &words) {
  std::vector<char *> arguments;
  for (const std::string &word : words)
    arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

/// Between fork and exec: other threads may have held any lock.
[[noreturn]] static void becomeProgram(char *const *words, const char *log, pid_t parent,
                                       unsigned seconds) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(127);
  alarm(seconds);
  int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
  int output = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
      dup2(output, STDERR_FILENO) >= 0)
    execvp(words[0], words);
  _exit(127);
}

pid_t startProgram(const std::vector<std::string> &words, const std::filesystem::path &log,
                   std::chrono::seconds most) {
  std::vector<char *> arguments = argumentsOf(words);
  pid_t parent = getpid(), child = fork();
  if (child == 0)
    becomeProgram(arguments.data(), log.c_str(), parent, static_cast<unsigned>(most.count()));
  if (child < 0)
    throw std::system_error(errno, std::generic_category(), "cannot start " + words[0]);
  return child;
}

int waitForProgram(pid_t program) {
  int status = 0;
  while (waitpid(program, &status, 0) < 0)
    if (errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "cannot wait for a program");
  return codeOf(status);
}

int codeOf(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

} // namespace pdc
