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
/// From now on all streams but this one run as early as they may: what lacks a wait for it comes
/// too soon. Null: as late again.
void runEarlyBut(cudaStream_t stream);
/// NCCL's groups of this process that have not ended. While there are any, and while one is open,
/// taking and freeing memory may wait for a peer for ever: here it is an error.
void countMessages(int more);

} // namespace pdc::testing
