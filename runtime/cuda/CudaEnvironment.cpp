#include "runtime/cuda/CudaEnvironment.h"

#include "runtime/RankPlace.h"
#include "runtime/cuda/Queues.h"

#include <cstdlib>

namespace pdc::runtime::cuda {

/// Sets what says when something is loaded; what its user should know, or nothing.
static std::string loadAtOnce(const char *name) {
  constexpr const char *kEager = "EAGER";
  const char *set = std::getenv(name);
  const std::string given = set ? set : kEager;
  setenv(name, kEager, 1);
  return given.empty() || given == kEager
             ? ""
             : std::string(name) + " is " + given +
                   ", with which ranks may wait for each other for ever: this run sets it to " +
                   kEager;
}

/// Kernels of one of several processes, and the data that they come with, are loaded at once:
/// loading one when it is first used may wait for all that runs, and so for a message or a sum of
/// replicas that the schedule lets this rank run ahead of. Another choice is overruled: mostly it
/// is not its user's but inherited, as from processes of PyTorch, and a run that may stand still
/// for ever is worse than a slower start.
static std::string loadAllAtOnce() {
  const std::string kernels = loadAtOnce("CUDA_MODULE_LOADING"),
                    data = loadAtOnce("CUDA_MODULE_DATA_LOADING");
  return kernels.empty() ? data : kernels;
}

/// How many queues of the GPU its streams share: behind a message whose other side has not come,
/// nothing in the same queue begins.
std::string setCudaEnvironment() {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(kMostQueues).c_str(), 1);
  return isOneOfSeveral() ? loadAllAtOnce() : "";
}

} // namespace pdc::runtime::cuda
