#include "runtime/cuda/Events.h"

#include "runtime/cuda/Launch.h"

#include <sys/prctl.h>

#include <chrono>
#include <thread>

namespace pdc::runtime::cuda {

namespace {

/// While the host waits for an update's losses the GPU has nothing to do.
constexpr std::chrono::microseconds kSleep{10};

/// Linux lets a thread sleep 50 us longer than it asks for, unless the thread says otherwise.
void sleepShortly() {
  [[maybe_unused]] static thread_local const int isPunctual = prctl(PR_SET_TIMERSLACK, 1000UL);
  std::this_thread::sleep_for(kSleep);
}

} // namespace

cudaEvent_t makeEvent(unsigned flags) {
  cudaEvent_t event = nullptr;
  require(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
  return event;
}

void waitFor(cudaEvent_t event, const std::function<void(double waited)> &whileWaiting) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  for (int64_t polls = 0;; ++polls) {
    const cudaError_t state = cudaEventQuery(event);
    if (state == cudaSuccess)
      return;
    if (state != cudaErrorNotReady)
      require(state, "work of the GPU");
    if (polls < 10000) {
      std::this_thread::yield();
      continue;
    }
    if (polls % 64 == 0 && whileWaiting)
      whileWaiting(std::chrono::duration<double>(Clock::now() - begin).count());
    sleepShortly();
  }
}

} // namespace pdc::runtime::cuda
