#pragma once

#include <filesystem>

namespace pdc {

/// Measures bandwidth and latency between every two ranks that mpirun has started, one pair at a
/// time, and writes a topology of two levels, or of one where all ranks stand on one host or one on
/// each. Every rank calls it; rank 0 writes and prints. Throws runtime::Error or pdc::Error.
void measureLinks(const std::filesystem::path &output);

} // namespace pdc
