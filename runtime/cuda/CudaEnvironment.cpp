#include "runtime/cuda/CudaEnvironment.h"

#include "runtime/RankPlace.h"
#include "runtime/cuda/Queues.h"

#include <cstdlib>

namespace pdc::runtime::cuda {

/// Kernels of one of several processes are loaded at once: loading one when it is first used may
/// wait for all that runs, and so for a message or a sum of replicas that the schedule lets this
/// rank run ahead of. Another choice is overruled: mostly it is not its user's but inherited, as
/// from processes of PyTorch, and a run that may stand still for ever is worse than a slower start.
static std::string loadAtOnce() {
  constexpr const char *kName = "CUDA_MODULE_LOADING", *kEager = "EAGER";
  const char *set = std::getenv(kName);
  const std::string given = set ? set : kEager;
  setenv(kName, kEager, 1);
  return given.empty() || given == kEager
             ? ""
             : std::string(kName) + " is " + given +
                   ", with which ranks may wait for each other for ever: this run sets it to " +
                   kEager;
}

/// How many queues of the GPU its streams share: behind a message whose other side has not come,
/// nothing in the same queue begins.
std::string setCudaEnvironment() {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(kMostQueues).c_str(), 1);
  return isOneOfSeveral() ? loadAtOnce() : "";
}

} // namespace pdc::runtime::cuda
