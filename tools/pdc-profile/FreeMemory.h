#pragma once

#include <cstdint>
#include <filesystem>

namespace pdc {

/// Bytes that programs can take without pushing others out: what the machine has left, and no more
/// than the limits of the control groups that this process is in leave. 0 where nothing says so.
/// `root` is what stands in front of /proc and /sys.
int64_t availableBytes(const std::filesystem::path &root = "/");

} // namespace pdc
