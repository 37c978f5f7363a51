#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace pdc {

/// Starts a program without input, its output in a file. It ends with this process, and after so
/// much time where `most` is not 0.
pid_t startProgram(const std::vector<std::string> &words, const std::filesystem::path &log,
                   std::chrono::seconds most = {});

/// Waits for a program's end: its exit code, or 128 and the number of the signal that ended it.
int waitForProgram(pid_t program);

/// Copies of the measuring program in `folder` that compute beside it until this goes.
class Copies {
public:
  Copies(const std::filesystem::path &folder, const std::vector<std::string> &data, int count,
         std::chrono::seconds most);
  Copies(const Copies &) = delete;
  ~Copies();

  /// Throws Error where one has ended.
  void check();

private:
  std::filesystem::path logOf(size_t copy) const;

  std::filesystem::path folder;
  std::vector<pid_t> running; ///< 0: has ended
};

} // namespace pdc
