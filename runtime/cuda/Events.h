#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace pdc::runtime::cuda {

cudaEvent_t makeEvent(unsigned flags = cudaEventDisableTiming);

/// Waits until the event has come to pass. Calls `whileWaiting`, where there is one, again and again
/// with the seconds it has waited: what that throws, as for a peer's failure or the timeout, ends
/// the wait.
void waitFor(cudaEvent_t event, const std::function<void(double waited)> &whileWaiting);

} // namespace pdc::runtime::cuda
