#pragma once

#include <filesystem>
#include <functional>

namespace pdc {

/// Makes `folder` hold what `fill` writes into the empty folder it is given. Nothing is visible
/// before all is written: a new folder is renamed into place; in an existing one each file whose
/// bytes changed is replaced by renaming, so that a build there stays incremental. Stage sources of
/// an earlier plan that are no longer part of it go; anything else that lies there stays. Throws
/// Error when `folder` is something that pdc has not written, or when writing fails.
void writeFolder(const std::filesystem::path &folder,
                 const std::function<void(const std::filesystem::path &)> &fill);

/// Writes a file; throws Error naming it when that fails.
void writeFile(const std::filesystem::path &path, const std::string &text);

} // namespace pdc
