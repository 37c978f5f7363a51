#include "runtime/SharedFolder.h"

#include "runtime/Error.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace pdc::runtime {

namespace fs = std::filesystem;

/// File systems over a network show a new file somewhat later elsewhere.
static constexpr std::chrono::milliseconds kPause(100);
static constexpr int kLooks = 30;

/// A file whose name nobody knows beforehand, as long as it is looked for.
class Marker {
public:
  Marker(const std::string &folder)
      : name(".pdc-run-" + std::to_string(std::random_device()()) +
             std::to_string(std::random_device()())),
        path(fs::path(folder) / name) {
    if (!(std::ofstream(path) << hostName() << std::flush))
      throw Error("--save ", folder, ": cannot be written; give a folder that can");
  }
  ~Marker() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
  Marker(const Marker &) = delete;
  Marker &operator=(const Marker &) = delete;

  const std::string name;

private:
  const fs::path path;
};

static bool isSeen(const fs::path &path) {
  std::error_code ignored;
  for (int look = 0; look < kLooks; ++look) {
    if (fs::exists(path, ignored))
      return true;
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

void requireSharedFolder(const std::string &folder, int rank, Control &control) {
  std::optional<Marker> marker;
  if (rank == 0 && !folder.empty())
    marker.emplace(folder);
  // What rank 0 says; then of each rank the host that does not see it.
  std::vector<std::string> all;
  control.gather(marker ? marker->name + " " + hostName() : "", all);
  const std::string first = all[0];
  const size_t space = first.find(' ');
  const bool looks = !first.empty() && !folder.empty();
  control.gather(looks && !isSeen(fs::path(folder) / first.substr(0, space)) ? hostName() : "",
                 all);
  for (size_t other = 0; other < all.size(); ++other)
    if (!all[other].empty())
      throw Error("--save ", folder, ": is not the same folder on all hosts: rank ", other, " on ",
                  all[other], " does not see there what rank 0 on ", first.substr(space + 1),
                  " writes; give one that is shared, as on NFS");
}

void syncFolder(const fs::path &folder) {
  const int handle = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle >= 0) {
    fsync(handle);
    close(handle);
  }
}

/// Whether an open file still has the name.
static bool isNamed(int file, const fs::path &path) {
  struct stat held, named;
  return fstat(file, &held) == 0 && stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino;
}

/// Where locks are not known, runs have to keep apart by themselves.
SavingLock::SavingLock(const std::string &folder) : path(fs::path(folder) / ".lock") {
  do {
    file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
      return;
    if (flock(file, LOCK_EX | LOCK_NB) == 0)
      continue;
    if (errno != EWOULDBLOCK)
      return;
    close(file);
    throw Error("--save ", folder,
                ": another run saves there; give another folder, or end that run first");
  } while (!isNamed(file, path) && close(file) == 0); // a run that ended has taken it away
}

SavingLock::~SavingLock() {
  if (file < 0)
    return;
  unlink(path.c_str());
  close(file);
}

} // namespace pdc::runtime
