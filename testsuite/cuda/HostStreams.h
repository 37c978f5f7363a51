#pragma once

#include <cuda_runtime_api.h>

#include <functional>

/// CUDA's runtime on the host: its memory is the host's, and streams are queues whose work runs as
/// late as it may, which is when somebody waits for it: an event that is not waited for is missed.
namespace pdc::testing {

void enqueue(cudaStream_t stream, std::function<void()> work);
/// Work that waits for other processes: it is tried again until it returns true.
void enqueueUntilTrue(cudaStream_t stream, std::function<bool()> work);
/// Whether the stream is of this thread's device, as kernels want it.
bool isHere(cudaStream_t stream);
/// From now on streams also run while nobody waits, at drawn times and in a drawn order, as they
/// must where other processes wait for them.
void runStreamsByThemselves(unsigned seed);

} // namespace pdc::testing
