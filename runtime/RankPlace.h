#pragma once

#include <optional>

namespace pdc::runtime {

/// One rank of several processes.
struct RankPlace {
  int rank, ranks;
  int local; ///< among the ranks of its host
};

/// As the environment says: as torchrun sets it, Open MPI or SLURM. Throws Error where it says no
/// numbers.
std::optional<RankPlace> placeFromEnvironment();

/// Whether one of those has started several processes, as far as it says: a shell of a job is one
/// task.
bool isOneOfSeveral();

} // namespace pdc::runtime
