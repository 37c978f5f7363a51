#pragma once

#include <cuda_runtime_api.h>

namespace pdc::runtime::cuda {

/// Holds a stream back while what is to be timed is put into it: no kernel's time is then one in
/// which the device waited for the host. Not for long: a call that waits for the device itself, as
/// the first ones of a library may, and one that finds the stream full, come to their end.
class QueueGate {
public:
  explicit QueueGate(cudaStream_t stream);
  QueueGate(const QueueGate &) = delete;
  /// Opens it.
  ~QueueGate();
  void open();

private:
  const cudaStream_t stream;
  struct State;
  State *const state; ///< the stream's to free, once it has passed
};

} // namespace pdc::runtime::cuda
