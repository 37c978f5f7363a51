#pragma once

#include "runtime/Control.h"
#include "runtime/Transport.h"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace pdc::runtime {

/// What a message costs between two ranks.
struct MeasuredLink {
  int first = 0, second = 0;
  double bytesPerSecond = 0, latencySeconds = 0;
  /// What a rank copies itself while it computes nothing; 0: nothing.
  double sendBytesPerSecond = 0, receiveBytesPerSecond = 0;
};

/// Messages of one size, and the seconds of one of them.
struct MeasuredTrip {
  int64_t bytes = 0;
  double seconds = 0;
};

/// Latency and seconds per byte by which the trips, from small to large, are off by the least
/// squares of their shares.
MeasuredLink fitLink(std::span<const MeasuredTrip> trips);

/// Measures bandwidth and latency between every two ranks, one pair at a time. Collective: every
/// rank gets all of them. Null for `accelerator`: the ranks' messages are in memory of processors.
std::vector<MeasuredLink> measureLinks(Transport &transport, Control &control,
                                       Accelerator *accelerator);

/// The same, and what a sum over all ranks takes. Rank 0 prints them and writes a topology: of two
/// levels, or of one where all ranks stand on one host or one on each.
void measureTopology(Transport &transport, Control &control, Accelerator *accelerator,
                     const std::filesystem::path &output);

} // namespace pdc::runtime
