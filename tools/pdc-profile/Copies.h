#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace pdc {

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
