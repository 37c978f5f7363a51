#pragma once

#include <cuda_runtime_api.h>

#include <functional>

/// CUDA's graphs on the host: what a stream is given while it records.
namespace pdc::testing {

/// Whether the work went into what the stream records, and not into its queue.
bool isRecorded(cudaStream_t stream, const std::function<void()> &work);
/// Whether the stream records, and what it records is no graph any more because of this call.
bool spoils(cudaStream_t stream);
/// The same of what this thread records in any stream.
bool spoilsAny();

} // namespace pdc::testing
