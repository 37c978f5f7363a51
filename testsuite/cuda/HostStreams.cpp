#include "testsuite/cuda/HostStreams.h"

#include "testsuite/cuda/HostGraphs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

struct CUstream_st;

using pdc::testing::spoilsAny;

namespace {

/// One record of an event. A wait is for the record that stood when it was asked, also when the
/// event is recorded again before that has come to pass.
struct Record {
  CUstream_st *stream;
  bool passed = false;
  std::chrono::steady_clock::time_point time = {};
};

} // namespace

struct CUevent_st {
  const int device;
  std::shared_ptr<Record> last;
};

struct CUstream_st {
  const int device;
  struct Operation {
    std::function<bool()> work; ///< empty: a record or a wait
    std::shared_ptr<Record> record;
    bool waits = false;
  };
  std::deque<Operation> operations;
};

namespace {

struct Allocation {
  int64_t bytes;
  int device;
};
std::map<const std::byte *, Allocation> &allocations = // in use until the process ends
    *new std::map<const std::byte *, Allocation>;
std::set<std::pair<int, int>> peers; ///< the first may reach memory of the second

std::atomic<int> messages = 0;
CUstream_st *late = nullptr; ///< null: all streams are

thread_local int currentDevice = 0;

int deviceCount() {
  const char *number = std::getenv("HOST_CUDA_DEVICES");
  return number ? std::atoi(number) : 1;
}

std::recursive_mutex &mutex = *new std::recursive_mutex; // in use until the process ends
std::vector<CUstream_st *> &streams = *new std::vector<CUstream_st *>; ///< those not destroyed

bool runUntil(CUstream_st *stream, const Record *record);

/// One operation; a wait first lets the other stream run as far as it must. False: it cannot end
/// yet.
bool runNext(CUstream_st *stream) {
  CUstream_st::Operation &next = stream->operations.front();
  if (next.work) {
    if (!next.work())
      return false;
  } else if (!next.waits) {
    next.record->passed = true;
    next.record->time = std::chrono::steady_clock::now();
  } else if (!next.record->passed && !runUntil(next.record->stream, next.record.get())) {
    return false;
  }
  stream->operations.pop_front();
  return true;
}

/// `record`: null to run all. False: something cannot end yet.
bool runUntil(CUstream_st *stream, const Record *record) {
  while (!stream->operations.empty() && !(record && record->passed))
    if (!runNext(stream))
      return false;
  return true;
}

/// A stream that has work, drawn; null: none has.
CUstream_st *drawStream(std::mt19937 &random) {
  std::vector<CUstream_st *> busy;
  std::ranges::copy_if(streams, std::back_inserter(busy),
                       [](CUstream_st *stream) { return !stream->operations.empty(); });
  return busy.empty() ? nullptr : busy[random() % busy.size()];
}

/// All streams but the late one, until each waits for that.
void runEarly() {
  if (!late)
    return;
  for (bool again = true; again;) {
    again = false;
    for (CUstream_st *stream : streams)
      while (stream != late && !stream->operations.empty() &&
             !(stream->operations.front().waits && !stream->operations.front().record->passed) &&
             runNext(stream))
        again = true;
  }
}

void add(CUstream_st *stream, CUstream_st::Operation operation) {
  stream->operations.push_back(std::move(operation));
  runEarly();
}

cudaError_t stateOfMemory() {
  if (spoilsAny())
    return cudaErrorStreamCaptureUnsupported;
  return messages > 0 ? cudaErrorNotPermitted : cudaSuccess;
}

void runDrawn(unsigned seed) {
  std::mt19937 random(seed);
  while (true) {
    {
      std::lock_guard lock(mutex);
      if (CUstream_st *stream = drawStream(random))
        runNext(stream);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
  }
}

} // namespace

namespace pdc::testing {

bool isHere(cudaStream_t stream) { return stream->device == currentDevice; }

void enqueue(cudaStream_t stream, std::function<void()> work) {
  if (isRecorded(stream, work))
    return;
  enqueueUntilTrue(stream, [work = std::move(work)] {
    work();
    return true;
  });
}

void enqueueUntilTrue(cudaStream_t stream, std::function<bool()> work) {
  if (spoils(stream))
    return;
  std::lock_guard lock(mutex);
  add(stream, {std::move(work), nullptr, false});
}

void runEarlyBut(cudaStream_t stream) {
  std::lock_guard lock(mutex);
  late = stream;
  runEarly();
}

void countMessages(int more) { messages += more; }

void runStreamsByThemselves(unsigned seed) {
  static std::once_flag once;
  std::call_once(once, [seed] { std::thread(runDrawn, seed).detach(); });
}

} // namespace pdc::testing

/// At least what the arrangement of edges asks for, whatever the headers are of.
static constexpr int kVersion = std::max(CUDART_VERSION, 12030);

using pdc::testing::enqueue;
using pdc::testing::spoils;

extern "C" {

cudaError_t cudaGetDeviceCount(int *count) {
  *count = deviceCount();
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
  *properties = {};
  std::strcpy(properties->name, "this host");
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= deviceCount())
    return cudaErrorInvalidDevice;
  currentDevice = device;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
  const char *number = std::getenv("HOST_CUDA_VERSION");
  *version = number ? std::atoi(number) : kVersion;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = kVersion;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
  *available = *total = size_t(1) << 34;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void **memory, size_t bytes) {
  if (const cudaError_t state = stateOfMemory(); state != cudaSuccess)
    return state;
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*memory) {
    std::memset(*memory, 0xff, bytes);
    std::lock_guard lock(mutex);
    allocations[static_cast<std::byte *>(*memory)] = {int64_t(bytes), currentDevice};
  }
  return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void *memory) {
  if (const cudaError_t state = stateOfMemory(); state != cudaSuccess && memory)
    return state;
  std::lock_guard lock(mutex);
  allocations.erase(static_cast<const std::byte *>(memory));
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *found, const void *memory) {
  std::lock_guard lock(mutex);
  const auto *at = static_cast<const std::byte *>(memory);
  auto next = allocations.upper_bound(at);
  *found = {};
  if (next == allocations.begin() || at >= std::prev(next)->first + std::prev(next)->second.bytes)
    return cudaSuccess; // of nobody's
  found->type = cudaMemoryTypeDevice;
  found->device = std::prev(next)->second.device;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  *can = device != peer;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  std::lock_guard lock(mutex);
  return peers.insert({currentDevice, peer}).second ? cudaSuccess
                                                    : cudaErrorPeerAccessAlreadyEnabled;
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned) {
  return cudaMalloc(memory, bytes);
}
cudaError_t cudaFreeHost(void *memory) { return cudaFree(memory); }
const char *cudaGetErrorString(cudaError_t) { return "an error"; }
const char *cudaGetErrorName(cudaError_t) { return "cudaError"; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
  std::lock_guard lock(mutex);
  *stream = streams.emplace_back(new CUstream_st{currentDevice, {}});
  return cudaSuccess;
}
/// Streams outlive their owners: events of others may still name them.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::lock_guard lock(mutex);
  std::erase(streams, stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (spoilsAny())
    return cudaErrorStreamCaptureUnsupported;
  for (bool done = false; !done;) {
    std::lock_guard lock(mutex);
    done = runUntil(stream, nullptr);
  }
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
  *event = new CUevent_st{currentDevice, nullptr};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event->device != stream->device)
    return cudaErrorInvalidResourceHandle;
  if (spoils(stream))
    return cudaErrorStreamCaptureUnsupported;
  std::lock_guard lock(mutex);
  event->last = std::make_shared<Record>(Record{stream});
  add(stream, {{}, event->last, false});
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (spoils(stream))
    return cudaErrorStreamCaptureUnsupported;
  std::lock_guard lock(mutex);
  if (event->last)
    add(stream, {{}, event->last, true});
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (spoilsAny())
    return cudaErrorStreamCaptureUnsupported;
  std::lock_guard lock(mutex);
  if (event->last && !event->last->passed)
    runUntil(event->last->stream, event->last.get());
  return event->last && !event->last->passed ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  cudaError_t state;
  while ((state = cudaEventQuery(event)) == cudaErrorNotReady)
    ;
  return state;
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
  std::lock_guard lock(mutex);
  if (!from->last || !to->last || !from->last->passed || !to->last->passed)
    return cudaErrorNotReady;
  *milliseconds =
      std::chrono::duration<float, std::milli>(to->last->time - from->last->time).count();
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
  enqueue(stream, [=] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
  enqueue(stream, [=] { std::memset(memory, value, bytes); });
  return cudaSuccess;
}

} // extern "C"
