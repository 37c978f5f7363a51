#include "tools/pdc-profile/FreeMemory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace fs = std::filesystem;

namespace pdc {

/// The number behind a name at the beginning of a line, as in "MemAvailable:  1234 kB".
static std::optional<int64_t> numberBehind(const fs::path &path, const std::string &name) {
  std::ifstream file(path);
  for (std::string word, rest; file >> word; std::getline(file, rest))
    if (int64_t number = 0; word == name && file >> number)
      return number;
  return std::nullopt;
}

/// Nothing where there is no such file, or it says "max".
static std::optional<int64_t> numberIn(const fs::path &path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// The files of one version of control groups, and what its kernel counts of files that it can
/// drop.
struct GroupFiles {
  std::string folder, limit, usage, cached;
};

/// What a group and those around it leave.
static std::optional<int64_t> leftOfGroups(const fs::path &mount, fs::path group,
                                           const GroupFiles &files) {
  std::optional<int64_t> least;
  for (;; group = group.parent_path()) {
    fs::path folder = mount / group.relative_path();
    std::optional<int64_t> limit = numberIn(folder / files.limit);
    std::optional<int64_t> usage = numberIn(folder / files.usage);
    if (limit && usage) {
      int64_t cached = numberBehind(folder / "memory.stat", files.cached).value_or(0);
      int64_t left = std::max<int64_t>(1, *limit - std::max<int64_t>(0, *usage - cached));
      least = std::min(least.value_or(left), left);
    }
    if (group == group.parent_path())
      return least;
  }
}

int64_t availableBytes(const fs::path &root) {
  std::optional<int64_t> kilobytes = numberBehind(root / "proc/meminfo", "MemAvailable:");
  int64_t bytes = kilobytes.value_or(0) * 1024;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // As in "4:memory:/path" and, of version 2, "0::/path".
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    std::string kind = line.substr(first + 1, second - first - 1);
    if (!kind.empty() && kind != "memory")
      continue;
    GroupFiles files = kind.empty()
                           ? GroupFiles{"", "memory.max", "memory.current", "inactive_file"}
                           : GroupFiles{"memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                        "total_inactive_file"};
    if (std::optional<int64_t> left =
            leftOfGroups(root / "sys/fs/cgroup" / files.folder, line.substr(second + 1), files))
      bytes = bytes > 0 ? std::min(bytes, *left) : *left;
  }
  return bytes;
}

} // namespace pdc
