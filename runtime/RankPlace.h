#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace pdc::runtime {

/// What has started this process, and others with it. Of mpirun Open MPI's; `pmi`: another launcher
/// of MPI programs.
enum class Launcher : uint8_t { none, torchrun, mpirun, slurm, pmi };

/// The only place that decides whether a process is a rank, for pdc-run and the stage programs.
/// Slurm's variables alone do not say it: batch scripts and the shells of salloc and of
/// `srun --pty` have a SLURM_PROCID, too, of a job of as many tasks as were asked for. What srun
/// has started as one of several has the number of its step, and that of the step's tasks.
Launcher launcherOfThis();

/// Whether that launcher starts programs of MPI.
bool startedByMpi();

/// One rank of several processes.
struct RankPlace {
  int rank, ranks;
  int local; ///< among the ranks of its host
};

/// As the launcher says, where it does. Throws Error where it says no numbers.
std::optional<RankPlace> placeFromEnvironment();

/// Whether the launcher has started several processes, as far as it says.
bool isOneOfSeveral();

/// How so many ranks are started in the way in which this process was: "srun -n 8". `mpi`: as
/// ranks of MPI.
std::string commandFor(int ranks, bool mpi);

/// How all ranks are told where rank 0 listens.
std::string rendezvousAdvice();

} // namespace pdc::runtime
