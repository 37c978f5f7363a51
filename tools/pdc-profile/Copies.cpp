#include "tools/pdc-profile/Copies.h"

#include "compiler/Error.h"
#include "compiler/plan/Files.h"
#include "tools/Programs.h"

#include <csignal>
#include <sys/wait.h>

namespace fs = std::filesystem;

namespace pdc {

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
  for (int copy = 0; copy < count; ++copy) {
    fs::remove(logOf(running.size()));
    running.push_back(startProgram(words, logOf(running.size()), most));
  }
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
