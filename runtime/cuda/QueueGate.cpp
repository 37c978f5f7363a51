#include "runtime/cuda/QueueGate.h"

#include "runtime/cuda/Launch.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace pdc::runtime::cuda {

struct QueueGate::State {
  std::mutex mutex;
  std::condition_variable opened;
  bool isOpen = false;

  static void wait(void *state) {
    auto &self = *static_cast<State *>(state);
    std::unique_lock lock(self.mutex);
    self.opened.wait_for(lock, std::chrono::milliseconds(20), [&] { return self.isOpen; });
  }
  static void free(void *state) { delete static_cast<State *>(state); }
};

QueueGate::QueueGate(cudaStream_t stream) : stream(stream), state(new State) {
  const cudaError_t code = cudaLaunchHostFunc(stream, State::wait, state);
  if (code != cudaSuccess)
    delete state;
  require(code, "cudaLaunchHostFunc");
}

QueueGate::~QueueGate() {
  open();
  cudaLaunchHostFunc(stream, State::free, state);
}

void QueueGate::open() {
  std::lock_guard lock(state->mutex);
  state->isOpen = true;
  state->opened.notify_all();
}

} // namespace pdc::runtime::cuda
