#pragma once

#include <filesystem>

namespace pdc {

/// Measures the links between the ranks that mpirun has started (runtime/LinkMeter.h). Every rank
/// calls it; rank 0 writes and prints. Throws runtime::Error or pdc::Error.
void measureLinks(const std::filesystem::path &output);

/// Adds a program to a project for GPUs that measures the links between them over NCCL.
void addLinksProgram(const std::filesystem::path &project);

} // namespace pdc
