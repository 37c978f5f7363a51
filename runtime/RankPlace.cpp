#include "runtime/RankPlace.h"

#include "runtime/Error.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace pdc::runtime {

namespace {

struct Variables {
  Launcher launcher;
  const char *rank, *ranks, *local;
};

/// In the order in which they are asked: a launcher may have been started by one behind it, as
/// mpirun's helpers are by srun, and leaves the other's variables.
constexpr Variables kVariables[] = {
    {Launcher::torchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {Launcher::mpirun, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {Launcher::slurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
};

std::string_view valueOf(const char *variable) {
  const char *text = std::getenv(variable);
  return text ? text : "";
}

std::optional<int> numberFrom(const char *variable) {
  std::string_view text = valueOf(variable);
  if (text.empty())
    return std::nullopt;
  int value = 0;
  auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || rest != text.data() + text.size() || value < 0)
    throw Error(variable, " is '", text, "', expected a number");
  return value;
}

/// Steps above are Slurm's own: the batch script, an interactive shell.
constexpr uint32_t kMostStep = 0xfffffff0;

/// Whether srun has started this process as one of several.
bool isTaskOfStep() {
  std::string_view step = valueOf("SLURM_STEP_ID"), tasks = valueOf("SLURM_STEP_NUM_TASKS");
  uint32_t number = kMostStep;
  std::from_chars(step.data(), step.data() + step.size(), number);
  return number < kMostStep && !tasks.empty() && tasks != "1";
}

const Variables *variablesOfThis() {
  for (const Variables &variables : kVariables)
    if (!valueOf(variables.rank).empty() && !valueOf(variables.ranks).empty() &&
        (variables.launcher != Launcher::slurm || isTaskOfStep()))
      return &variables;
  return nullptr;
}

} // namespace

Launcher launcherOfThis() {
  if (const Variables *variables = variablesOfThis())
    return variables->launcher;
  // Shells that srun has started have PMI's variables, too.
  bool hasPmi = !valueOf("PMI_RANK").empty() || !valueOf("PMIX_RANK").empty();
  return hasPmi && valueOf("SLURM_JOB_ID").empty() ? Launcher::pmi : Launcher::none;
}

bool startedByMpi() {
  Launcher launcher = launcherOfThis();
  return launcher != Launcher::none && launcher != Launcher::torchrun;
}

bool isOneOfSeveral() {
  const Variables *variables = variablesOfThis();
  return variables && valueOf(variables->ranks) != "1";
}

std::optional<RankPlace> placeFromEnvironment() {
  const Variables *variables = variablesOfThis();
  if (!variables)
    return std::nullopt;
  std::optional<int> rank = numberFrom(variables->rank), local = numberFrom(variables->local);
  return RankPlace{*rank, *numberFrom(variables->ranks), local.value_or(*rank)};
}

std::string commandFor(int ranks, bool mpi) {
  const std::string number = std::to_string(ranks);
  switch (launcherOfThis()) {
  case Launcher::torchrun:
    return "torchrun whose --nnodes times --nproc-per-node is " + number;
  case Launcher::slurm:
    return (mpi ? "srun --mpi=pmix -n " : "srun -n ") + number;
  case Launcher::none:
  case Launcher::mpirun:
  case Launcher::pmi:
    break;
  }
  return "mpirun -n " + number;
}

std::string rendezvousAdvice() {
  const std::string all = "set MASTER_ADDR to the host of rank 0 and MASTER_PORT to a port that is "
                          "free there, for all ranks";
  switch (launcherOfThis()) {
  case Launcher::slurm:
    return all + ": export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head "
                 "-n 1) MASTER_PORT=29500 before srun";
  case Launcher::mpirun:
    return all + ": mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500";
  case Launcher::torchrun:
    return all + ", as torchrun does";
  case Launcher::none:
  case Launcher::pmi:
    break;
  }
  return all;
}

} // namespace pdc::runtime
