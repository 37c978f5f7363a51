#pragma once

#include "compiler/simulator/PlayedRows.h"

#include <filesystem>

namespace pdc {

/// Whether a file is a trace, and not text.
bool isTrace(const std::filesystem::path &path);

/// The training tasks of a trace that a run of the plan has written (--trace). Of an asynchronous
/// plan, which starts anew behind each evaluation and checkpoint, the longest piece. Throws
/// pdc::Error that names the file and the event.
TaskTimes readTrace(const std::filesystem::path &path, const Plan &plan);

} // namespace pdc
