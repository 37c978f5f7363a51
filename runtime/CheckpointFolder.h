#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

/// A folder of checkpoints, in which several runs may have saved. Each run marks the folder as it
/// begins, and its checkpoints hold the same name of it.
namespace pdc::runtime {

/// Marks the folder as one that a run saves in, which begins at `resumed` ("": anew). Returns the
/// run's name. Throws Error where that cannot be written.
std::string beginSaving(const std::string &folder, const std::string &resumed);

/// `path`, or of a folder of checkpoints the newest of the run that began to save there last, or
/// what that run went on from. Throws Error where there is none.
std::string newestCheckpoint(const std::string &path);

/// The one that newestCheckpoint would find beside it without it; "" where there is none.
std::string checkpointBefore(const std::string &checkpoint);

/// The checkpoint of the highest step in the folder, where that is above `step`; "" else.
std::string checkpointBeyond(const std::string &folder, int64_t step);

} // namespace pdc::runtime
