#pragma once

#include "runtime/Control.h"

#include <filesystem>
#include <string>

namespace pdc::runtime {

/// Refuses on all ranks, which are processes of their own and all call this, a folder for
/// checkpoints that rank 0 has and another does not see: all write into it, rank 0 what tells of
/// all. A checkpoint would fail else, hours later. Empty: nothing is saved.
void requireSharedFolder(const std::string &folder, int rank, Control &control);

/// Has what was renamed in a folder on the disk, as far as that can be had.
void syncFolder(const std::filesystem::path &folder);

/// Keeps other runs from saving in the folder, while it lives. Throws Error where one does already.
class SavingLock {
public:
  explicit SavingLock(const std::string &folder);
  ~SavingLock();
  SavingLock(const SavingLock &) = delete;
  SavingLock &operator=(const SavingLock &) = delete;

private:
  const std::filesystem::path path;
  int file = -1;
};

} // namespace pdc::runtime
