#include "runtime/cuda/NcclLines.h"

#include "runtime/Error.h"
#include "runtime/cuda/CudaAccelerator.h"
#include "runtime/cuda/Launch.h"
#include "runtime/cuda/Queues.h"

#include <algorithm>
#include <cstring>
#include <ranges>
#include <thread>
#include <utility>

namespace pdc::runtime::cuda {

/// Of a communicator: the blocks of its kernel, which the GPU takes from those that compute.
static constexpr int kChannels = 4;

NcclTransport::NcclTransport(Accelerator &accelerator, Control &control, Arrangement arrangement,
                             const std::string &receivers, int64_t summedWith)
    : accelerator(accelerator), control(control), self(control.rank()), size(control.ranks()),
      arrangement(arrangement) {
  cuda::require(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming),
                "cudaEventCreateWithFlags");
  control.setActivity({"connects over NCCL"});
  std::vector<std::string> all;
  control.gather(receivers, all);
  makeLines(edgesOf(all));
  requireQueues(summedWith);
  shareIds();
  connect();
  // The room of a step, and every edge: the first message of a pair takes most of a second.
  requests.resize(kRequests);
  for (size_t i = kRequests; i-- > 0;)
    free.push_back(static_cast<int>(i));
  waiting.reserve(kRequests);
  warmUp();
}

void NcclTransport::makeLines(const std::vector<std::vector<int>> &edges) {
  auto sends = [&](int from, int to) { return std::ranges::count(edges[size_t(from)], to) > 0; };
  auto add = [&](int peer, int key) {
    const bool shares = arrangement == Arrangement::pairs && !streams.empty();
    lines.push_back({peer, key, {}, nullptr, shares ? streams[0] : makeStream(), {}});
    return int(lines.size()) - 1;
  };
  for (int peer = 0; peer < size; ++peer) {
    if (peer == self || (!sends(self, peer) && !sends(peer, self)))
      continue;
    const int low = std::min(self, peer), high = std::max(self, peer);
    if (arrangement == Arrangement::pairs) {
      lineTo[0][peer] = lineTo[1][peer] = add(peer, low * size + high);
      continue;
    }
    for (bool send : {self == low, self != low})
      if (send ? sends(self, peer) : sends(peer, self))
        lineTo[send][peer] = add(peer, send ? self * size + peer : peer * size + self);
  }
}

void NcclTransport::requireQueues(int64_t summedWith) const {
  if (arrangement == Arrangement::edges && !haveQueues(int64_t(lines.size()), summedWith))
    throw Error(
        "rank ", self, " exchanges tensors over ", lines.size(),
        " directed edges and sums gradients with ", summedWith,
        " other ranks: each edge needs three queues of the GPU and each of those ranks two, "
        "beside ",
        kQueuesOfEachRank, " others, and there are ", kMostQueues,
        "; plan with fewer ranks or another schedule");
}

/// The lower rank of a pair, and the sender of an edge, makes its id and tells it behind its key.
void NcclTransport::shareIds() {
  constexpr size_t keyBytes = sizeof(int), bytes = keyBytes + sizeof(ncclUniqueId);
  std::string mine;
  for (Line &line : lines)
    if (line.key / size == self) {
      require(ncclGetUniqueId(&line.id), "ncclGetUniqueId");
      mine.append(reinterpret_cast<const char *>(&line.key), keyBytes);
      mine.append(line.id.internal, sizeof line.id.internal);
    }
  std::vector<std::string> all;
  control.gather(mine, all);
  for (Line &line : lines) {
    const std::string &told = all[size_t(line.key / size)];
    for (size_t at = 0; at + bytes <= told.size(); at += bytes)
      if (std::memcmp(told.data() + at, &line.key, keyBytes) == 0)
        std::memcpy(&line.id, told.data() + at + keyBytes, sizeof line.id);
  }
}

/// One after the other in an order that all ranks share, so that none waits for another's.
/// Non-blocking: no call holds this thread longer than the timeout.
void NcclTransport::connect() {
  std::vector<Line *> inOrder;
  for (Line &line : lines)
    inOrder.push_back(&line);
  std::ranges::sort(inOrder, {}, &Line::key);
  for (Line *line : inOrder) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.maxCTAs = kChannels; // messages share the GPU with the kernels of the next microbatch
    const int number = line->key / size == self ? 0 : 1;
    require(ncclCommInitRankConfig(&line->communicator, 2, line->id, number, &config),
            "ncclCommInitRankConfig");
    settle(*line, "ncclCommInitRankConfig");
  }
}

void NcclTransport::warmUp() {
  std::vector<Message> hello;
  for (bool send : {true, false})
    for (const auto &[peer, line] : lineTo[send])
      hello.push_back({send, peer, 0, nullptr, 4});
  if (hello.empty())
    return;
  std::byte *room = accelerator.allocate(256 * static_cast<int64_t>(hello.size()));
  for (size_t i = 0; i < hello.size(); ++i)
    hello[i].data = room + 256 * i;
  control.setActivity({"warms up its connections"});
  beginGroup();
  post(hello);
  endGroup();
  for (Message &message : hello)
    wait(message.request, std::chrono::microseconds(0));
  std::byte nothing;
  accelerator.read(&nothing, room, 1);
}

cudaStream_t NcclTransport::makeStream() {
  cudaStream_t stream = nullptr;
  cuda::require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                "cudaStreamCreateWithFlags");
  return streams.emplace_back(stream);
}

/// What a failed rank has posted never ends; communicators are given up without waiting for it.
NcclTransport::~NcclTransport() {
  if (!isSound() || !std::ranges::all_of(lines, [this](Line &line) { return finish(line); }))
    abort();
  for (Request &request : requests)
    if (request.event)
      cudaEventDestroy(request.event);
  cudaEventDestroy(ready);
  for (cudaStream_t stream : streams)
    cudaStreamDestroy(stream);
}

bool NcclTransport::isSound() const {
  return !control.failed() && std::ranges::all_of(lines, [](const Line &line) {
    ncclResult_t state = ncclSuccess;
    return !line.communicator || (ncclCommGetAsyncError(line.communicator, &state) == ncclSuccess &&
                                  state == ncclSuccess);
  });
}

/// False: it does not end by itself.
bool NcclTransport::finish(Line &line) {
  if (!line.communicator)
    return true;
  ncclResult_t state = ncclCommFinalize(line.communicator);
  for (const Seconds begin = now();
       state == ncclInProgress && !control.failed() && now() - begin < control.timeout;
       std::this_thread::yield())
    if (ncclCommGetAsyncError(line.communicator, &state) != ncclSuccess)
      return false;
  if (state != ncclSuccess)
    return false;
  ncclCommDestroy(std::exchange(line.communicator, nullptr));
  return true;
}

/// A kernel may stand behind one of another communicator, which ends once that is aborted: in a
/// group NCCL (from 2.22) tells the kernels of all to end before it waits for those of any.
void NcclTransport::abort() {
  ncclGroupStart();
  for (Line &line : lines)
    if (line.communicator)
      ncclCommAbort(std::exchange(line.communicator, nullptr));
  ncclGroupEnd();
}

void NcclTransport::require(ncclResult_t result, const char *call, ncclComm_t communicator) const {
  if (result != ncclSuccess && result != ncclInProgress)
    throw Error("rank ", self, ": ", call, " failed: ", ncclGetErrorString(result), ": ",
                ncclGetLastError(communicator));
}

void NcclTransport::settle(const Line &line, const char *call) {
  const Seconds begin = now();
  ncclResult_t state = ncclInProgress;
  while (true) {
    require(ncclCommGetAsyncError(line.communicator, &state), "ncclCommGetAsyncError",
            line.communicator);
    require(state, call, line.communicator);
    if (state == ncclSuccess)
      return;
    control.check();
    if (now() - begin > control.timeout)
      throw Error("rank ", self, ": ", call, " takes longer than ", control.timeout,
                  " s (--timeout); are all ranks started, and do they reach one another?");
    std::this_thread::yield();
  }
}

void NcclTransport::post(std::span<Message> group) {
  for (Message &message : group) {
    if (free.empty())
      throw Error("rank ", self, " has ", requests.size(),
                  " messages open and posts another; use fewer microbatches per update");
    message.request = free.back();
    free.pop_back();
    Request &request = requests[message.request];
    request.issued = false;
    // Here, and not between the groups of an exchange, whose calls wait for nothing.
    if (!request.event)
      cuda::require(cudaEventCreateWithFlags(&request.event, cudaEventDisableTiming),
                    "cudaEventCreateWithFlags");
    waiting.push_back(message);
  }
  if (!grouping)
    issue();
}

void NcclTransport::endGroup() {
  grouping = false;
  issue();
}

Line &NcclTransport::lineOf(const Message &message) {
  auto line = lineTo[message.send].find(message.peer);
  if (line == lineTo[message.send].end())
    throw Error("rank ", self, " ", message.send ? "sends to" : "receives from", " rank ",
                message.peer, " over NCCL, but they were not connected at the start");
  return lines[size_t(line->second)];
}

/// Behind all that the queue holds now: what is sent has been computed, and what a receive
/// overwrites has been read. One group per communicator, later ranks first: that is how the
/// compiler has proven them (splitByPeers).
void NcclTransport::issue() {
  if (waiting.empty())
    return;
  auto queue = static_cast<cudaStream_t>(accelerator.queue());
  cuda::require(cudaEventRecord(ready, queue), "cudaEventRecord");
  for (const Message &message : waiting)
    lineOf(message).waiting.push_back(message);
  waiting.clear();
  for (Line &line : std::views::reverse(lines))
    if (!line.waiting.empty())
      issue(line);
}

void NcclTransport::issue(Line &line) {
  cuda::require(cudaStreamWaitEvent(line.stream, ready, 0), "cudaStreamWaitEvent");
  const int peer = line.key / size == self ? 1 : 0;
  require(ncclGroupStart(), "ncclGroupStart");
  // A group that stays open would hold back what aborts its communicators.
  struct EndedGroup {
    ~EndedGroup() {
      if (isOpen)
        ncclGroupEnd();
    }
    bool isOpen = true;
  } group;
  for (const Message &message : line.waiting)
    require(message.send ? ncclSend(message.data, size_t(message.bytes), ncclInt8, peer,
                                    line.communicator, line.stream)
                         : ncclRecv(message.data, size_t(message.bytes), ncclInt8, peer,
                                    line.communicator, line.stream),
            message.send ? "ncclSend" : "ncclRecv", line.communicator);
  group.isOpen = false;
  require(ncclGroupEnd(), "ncclGroupEnd", line.communicator);
  settle(line, "a group of messages");
  for (const Message &message : line.waiting) {
    Request &request = requests[message.request];
    cuda::require(cudaEventRecord(request.event, line.stream), "cudaEventRecord");
    request.issued = true;
    if (issued)
      issued({message, calls, line.key / size, line.key % size, arrangement == Arrangement::edges});
  }
  line.waiting.clear();
  ++calls;
}

/// What follows in the queue waits for the message, not this thread. A message of the group that is
/// being made, whose bytes a receive of the group overwrites, is one of its sends: all of them are
/// issued, and the receives are a group behind them, as the compiler has proven it (splitAtSlots).
bool NcclTransport::wait(int number, std::chrono::microseconds) {
  Request &request = requests.at(number);
  if (!request.issued)
    issue();
  cuda::require(
      cudaStreamWaitEvent(static_cast<cudaStream_t>(accelerator.queue()), request.event, 0),
      "cudaStreamWaitEvent");
  free.push_back(number);
  return true;
}

void NcclTransport::progress() {
  for (const Line &line : lines) {
    if (!line.communicator)
      continue;
    ncclResult_t state = ncclSuccess;
    require(ncclCommGetAsyncError(line.communicator, &state), "ncclCommGetAsyncError",
            line.communicator);
    require(state, "a message", line.communicator);
  }
}

std::unique_ptr<Transport> connectAll(Accelerator &accelerator, Control &control) {
  return std::make_unique<NcclTransport>(accelerator, control, Arrangement::pairs,
                                         allOthers(control.rank(), control.ranks()));
}

/// After a failure only: a peer that is gone never answers.
void NcclTransport::cancel() {
  if (control.failed())
    abort();
}

} // namespace pdc::runtime::cuda
