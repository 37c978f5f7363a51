#include "runtime/cuda/CudaAccelerator.h"

#include "runtime/Error.h"
#include "runtime/cuda/CudaEnvironment.h"
#include "runtime/cuda/Events.h"
#include "runtime/cuda/Launch.h"
#include "runtime/cuda/NcclTransport.h"
#include "runtime/cuda/PinnedMemory.h"
#include "runtime/cuda/QueueGate.h"
#include "runtime/cuda/Sums.h"
#include "runtime/cuda/TaskGraphs.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <thread>
#include <vector>

namespace pdc::runtime::cuda {

namespace {

/// A GPU with one stream for kernels and one for copies to other ranks of the process.
class CudaAccelerator : public Accelerator {
public:
  explicit CudaAccelerator(int device);
  ~CudaAccelerator() override;

  std::string name() const override;
  std::byte *allocate(int64_t bytes) override;
  int *makeFlag() override;
  void *queue() const override { return stream; }
  void run(const TaskRun &name, const std::function<void()> &task) override {
    graphs->run(name, task);
  }
  void interrupt(const std::function<void()> &action) override { graphs->interrupt(action); }
  std::byte *stage(int64_t bytes) override;
  void write(std::byte *to, const std::byte *staged, int64_t bytes) override;
  void move(std::byte *to, const std::byte *from, int64_t bytes) override;
  void add(float *to, const float *from, int64_t count) override { addTo(stream, to, from, count); }
  void divide(float *values, float by, int64_t count) override {
    divideBy(stream, values, by, count);
  }
  const float *testFinite(std::span<const std::span<const float>> tensors) override;
  void sumSquares(std::span<const AddedTensors> tensors, std::span<double> sums) override;
  void reserve(int64_t mostWritten) override;
  void reserveAhead(size_t place, int64_t bytes) override;
  std::byte *stageAhead(size_t place) override;
  void writeAhead(size_t place) override;
  void takeAhead(size_t place, std::byte *to) override;
  void finish() override;
  void read(std::byte *to, const std::byte *from, int64_t bytes) override;
  void readNumbers(std::span<const float *const> from, std::span<float> to) override;
  double secondsOf(const std::function<void()> &work) override;
  Mark makeMark() override;
  void record(Mark mark) override;
  void await(Mark mark) override;
  void copy(std::byte *to, const std::byte *from, int64_t bytes, std::span<const Mark> after,
            Mark done) override;
  std::unique_ptr<Accelerator> beside() const override {
    return std::make_unique<CudaAccelerator>(device);
  }

private:
  /// A write's host memory, in use until its event has come to pass.
  struct Chunk {
    PinnedMemory memory;
    cudaEvent_t copied = nullptr;
    bool busy = false;
  };
  /// What is copied beside the queue: from the host's memory until `arrived`, from the device's
  /// until `taken`.
  struct Piece {
    PinnedMemory staged;
    void *there = nullptr;
    int64_t bytes = 0;
    cudaEvent_t arrived = nullptr, taken = nullptr;
  };
  void waitFor(cudaEvent_t event) { cuda::waitFor(event, whileWaiting); }
  void reach(const std::byte *memory);

  /// So many writes may be under way before one waits; what is larger than kLargeBytes shares one
  /// chunk.
  static constexpr size_t kChunks = 32;
  static constexpr int64_t kLargeBytes = int64_t(32) << 20;
  /// What the chunks take in all while messages are under way, where there are more than a few.
  static constexpr int64_t kReservedBytes = int64_t(256) << 20;
  static constexpr size_t kFewestChunks = 8;
  static constexpr int64_t kReadBytes = int64_t(8) << 20;
  static constexpr size_t kTimedRuns = 3;
  /// Of the device's, for what is loaded and recorded later: no input is worth a graph.
  static constexpr size_t kLeftBytes = size_t(512) << 20;

  const int device;
  cudaStream_t stream = nullptr, copies = nullptr;
  cudaStream_t ahead = nullptr;     ///< null: nothing is read ahead
  std::optional<TaskGraphs> graphs; ///< of `stream`
  std::vector<void *> allocations;
  std::vector<cudaEvent_t> events;
  std::vector<Chunk> chunks{kChunks + 1};
  size_t ring = kChunks; ///< so many of them take turns
  size_t next = 0, staged = 0;
  std::deque<Piece> pieces;
  std::set<const std::byte *> reached; ///< of copies between ranks
  std::deque<PinnedMemory> flags;
  PinnedMemory readMemory;
  cudaEvent_t readDone = nullptr;
  std::vector<cudaEvent_t> clock; ///< around each timed run; none before the first
  std::byte *answer = nullptr;    ///< to testFinite, and what sumSquares works in
};

CudaAccelerator::CudaAccelerator(int device) : device(device) {
  require(cudaSetDevice(device), "cudaSetDevice");
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  require(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  graphs.emplace(stream);
  for (Chunk &chunk : chunks)
    events.push_back(chunk.copied = makeEvent());
  events.push_back(readDone = makeEvent());
  answer = allocate(squaresBytes());
  readMemory.room(kReadBytes);
}

/// After an error the streams may hold work that never ends, so nothing is waited for: freeing does
/// that where it must.
CudaAccelerator::~CudaAccelerator() {
  graphs.reset();
  for (cudaEvent_t event : events)
    cudaEventDestroy(event);
  if (ahead)
    cudaStreamDestroy(ahead);
  cudaStreamDestroy(copies);
  cudaStreamDestroy(stream);
  for (void *memory : allocations)
    cudaFree(memory);
}

std::string CudaAccelerator::name() const {
  cudaDeviceProp properties;
  require(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return properties.name;
}

std::byte *CudaAccelerator::allocate(int64_t bytes) {
  void *memory = nullptr;
  if (cudaMalloc(&memory, size_t(bytes)) != cudaSuccess) {
    size_t available = 0, total = 0;
    require(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
    throw Error("the program needs ", bytes, " bytes of the GPU's memory, of whose ", total,
                " bytes ", available, " are free; use more ranks or smaller microbatches");
  }
  allocations.push_back(memory);
  require(cudaMemsetAsync(memory, 0, size_t(bytes), stream), "cudaMemsetAsync");
  return static_cast<std::byte *>(memory);
}

/// In the host's memory: a kernel writes there itself, in the rare case that it has to.
int *CudaAccelerator::makeFlag() { return new (flags.emplace_back().room(sizeof(int))) int(0); }

std::byte *CudaAccelerator::stage(int64_t bytes) {
  staged = bytes > kLargeBytes ? kChunks : next;
  Chunk &chunk = chunks[staged];
  if (chunk.busy)
    waitFor(chunk.copied);
  chunk.busy = false;
  return chunk.memory.room(bytes);
}

void CudaAccelerator::write(std::byte *to, const std::byte *from, int64_t bytes) {
  require(cudaMemcpyAsync(to, from, size_t(bytes), cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync");
  Chunk &chunk = chunks[staged];
  require(cudaEventRecord(chunk.copied, stream), "cudaEventRecord");
  chunk.busy = true;
  if (staged == next)
    next = (next + 1) % ring;
}

void CudaAccelerator::reserve(int64_t mostWritten) {
  for (Chunk &chunk : chunks) {
    if (chunk.busy)
      waitFor(chunk.copied);
    chunk.busy = false;
    chunk.memory.free();
  }
  const int64_t each = std::max<int64_t>(std::min(mostWritten, kLargeBytes), 1);
  ring = std::clamp(size_t(kReservedBytes / each), kFewestChunks, kChunks);
  next = 0;
  for (size_t i = 0; i < ring; ++i)
    chunks[i].memory.room(each);
  if (mostWritten > kLargeBytes)
    chunks[kChunks].memory.room(mostWritten);
}

void CudaAccelerator::reserveAhead(size_t place, int64_t bytes) {
  if (pieces.size() <= place)
    pieces.resize(place + 1);
  Piece &piece = pieces[place];
  size_t available = 0, total = 0;
  require(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
  if (available < size_t(bytes) + kLeftBytes)
    return;
  const cudaError_t made = cudaMalloc(&piece.there, size_t(bytes));
  if (made == cudaErrorMemoryAllocation) { // available, but in pieces
    cudaGetLastError();                    // forgets it
    piece.there = nullptr;
    return;
  }
  require(made, "cudaMalloc");
  allocations.push_back(piece.there);
  piece.bytes = bytes;
  piece.staged.room(bytes);
  events.push_back(piece.arrived = makeEvent());
  events.push_back(piece.taken = makeEvent());
  if (!ahead)
    require(cudaStreamCreateWithFlags(&ahead, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

std::byte *CudaAccelerator::stageAhead(size_t place) {
  if (place >= pieces.size() || !pieces[place].there)
    return nullptr;
  Piece &piece = pieces[place];
  waitFor(piece.arrived);
  return piece.staged.room(piece.bytes);
}

void CudaAccelerator::writeAhead(size_t place) {
  Piece &piece = pieces[place];
  require(cudaStreamWaitEvent(ahead, piece.taken, 0), "cudaStreamWaitEvent");
  require(cudaMemcpyAsync(piece.there, piece.staged.room(piece.bytes), size_t(piece.bytes),
                          cudaMemcpyHostToDevice, ahead),
          "cudaMemcpyAsync");
  require(cudaEventRecord(piece.arrived, ahead), "cudaEventRecord");
}

void CudaAccelerator::takeAhead(size_t place, std::byte *to) {
  const Piece &piece = pieces[place];
  require(cudaStreamWaitEvent(stream, piece.arrived, 0), "cudaStreamWaitEvent");
  require(cudaMemcpyAsync(to, piece.there, size_t(piece.bytes), cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync");
  require(cudaEventRecord(piece.taken, stream), "cudaEventRecord");
}

void CudaAccelerator::finish() {
  require(cudaEventRecord(readDone, stream), "cudaEventRecord");
  waitFor(readDone);
}

/// In parts: its memory is never too small.
void CudaAccelerator::read(std::byte *to, const std::byte *from, int64_t bytes) {
  std::byte *pinned = readMemory.room(kReadBytes);
  for (int64_t at = 0; at < bytes; at += kReadBytes) {
    const auto part = size_t(std::min(bytes - at, kReadBytes));
    require(cudaMemcpyAsync(pinned, from + at, part, cudaMemcpyDeviceToHost, stream),
            "cudaMemcpyAsync");
    finish();
    std::memcpy(to + at, pinned, part);
  }
}

void CudaAccelerator::readNumbers(std::span<const float *const> from, std::span<float> to) {
  std::ranges::fill(to, 0);
  auto isThere = [](const float *number) { return number != nullptr; };
  if (std::ranges::none_of(from, isThere))
    return;
  auto *pinned = reinterpret_cast<float *>(readMemory.room(kReadBytes));
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i])
      require(cudaMemcpyAsync(pinned + i, from[i], sizeof(float), cudaMemcpyDeviceToHost, stream),
              "cudaMemcpyAsync");
  finish();
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i])
      to[i] = pinned[i];
}

const float *CudaAccelerator::testFinite(std::span<const std::span<const float>> tensors) {
  auto *result = reinterpret_cast<float *>(answer);
  cuda::testFinite(stream, tensors, result);
  return result;
}

void CudaAccelerator::sumSquares(std::span<const AddedTensors> tensors, std::span<double> sums) {
  for (size_t first = 0, count = 0; first < tensors.size(); first += count) {
    count = squaredTogether(tensors.subspan(first));
    addSquares(stream, tensors.subspan(first, count), reinterpret_cast<double *>(answer));
    read(reinterpret_cast<std::byte *>(&sums[first]), answer, int64_t(count * sizeof(double)));
  }
}

/// What stands in the stream may wait for other ranks, and is over before this one keeps them from
/// measuring.
double CudaAccelerator::secondsOf(const std::function<void()> &work) {
  while (clock.size() <= kTimedRuns)
    events.push_back(clock.emplace_back(makeEvent(cudaEventDefault)));
  record(clock[0]);
  waitFor(clock[0]);
  static std::mutex measuring;
  std::lock_guard lock(measuring);
  {
    QueueGate gate(stream);
    for (size_t run = 0; run <= kTimedRuns; ++run) {
      if (run > 0)
        work();
      record(clock[run]);
    }
  }
  waitFor(clock.back());
  float least = std::numeric_limits<float>::infinity();
  for (size_t run = 0; run < kTimedRuns; ++run) {
    float milliseconds = 0;
    require(cudaEventElapsedTime(&milliseconds, clock[run], clock[run + 1]),
            "cudaEventElapsedTime");
    least = std::min(least, milliseconds);
  }
  return 1e-3 * least;
}

void CudaAccelerator::move(std::byte *to, const std::byte *from, int64_t bytes) {
  require(cudaMemcpyAsync(to, from, size_t(bytes), cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

Accelerator::Mark CudaAccelerator::makeMark() { return events.emplace_back(makeEvent()); }

void CudaAccelerator::record(Mark mark) {
  require(cudaEventRecord(static_cast<cudaEvent_t>(mark), stream), "cudaEventRecord");
}

void CudaAccelerator::await(Mark mark) {
  require(cudaStreamWaitEvent(stream, static_cast<cudaEvent_t>(mark), 0), "cudaStreamWaitEvent");
}

/// Memory of another device: its copies go there directly and not through the host, where the two
/// devices can. Asked for where ranks meet, since it makes a context on the other device.
void CudaAccelerator::reach(const std::byte *memory) {
  if (!reached.insert(memory).second)
    return;
  cudaPointerAttributes found{};
  require(cudaPointerGetAttributes(&found, memory), "cudaPointerGetAttributes");
  int can = 0;
  if (found.type != cudaMemoryTypeDevice || found.device == device)
    return;
  require(cudaDeviceCanAccessPeer(&can, device, found.device), "cudaDeviceCanAccessPeer");
  if (!can)
    return;
  const cudaError_t enabled = cudaDeviceEnablePeerAccess(found.device, 0);
  if (enabled == cudaErrorPeerAccessAlreadyEnabled)
    cudaGetLastError(); // forgets it
  else
    require(enabled, "cudaDeviceEnablePeerAccess");
}

void CudaAccelerator::copy(std::byte *to, const std::byte *from, int64_t bytes,
                           std::span<const Mark> after, Mark done) {
  reach(to);
  reach(from);
  for (Mark mark : after)
    require(cudaStreamWaitEvent(copies, static_cast<cudaEvent_t>(mark), 0), "cudaStreamWaitEvent");
  require(cudaMemcpyAsync(to, from, size_t(bytes), cudaMemcpyDefault, copies), "cudaMemcpyAsync");
  require(cudaEventRecord(static_cast<cudaEvent_t>(done), copies), "cudaEventRecord");
}

const std::string environmentNotice = setCudaEnvironment();

/// Ranks of a host share its GPUs in turn; under the local transport all may be on one.
/// The first one tells what all share.
std::unique_ptr<Accelerator> open(int local) {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found != cudaSuccess || count == 0)
    throw Error(
        "this machine has no GPU that CUDA can use",
        found == cudaSuccess ? "" : std::string(": ") + cudaGetErrorString(found),
        "; the sources were made for CUDA: run them on such a machine, or pass --device cpu "
        "to pdc");
  if (local == 0 && !environmentNotice.empty())
    std::fprintf(stderr, "warning: %s\n", environmentNotice.c_str());
  return std::make_unique<CudaAccelerator>(local % count);
}

} // namespace

const DeviceSupport support{"cuda", open, connectPairs};
const DeviceSupport supportOfEdges{"cuda", open, connectEdges};

} // namespace pdc::runtime::cuda
