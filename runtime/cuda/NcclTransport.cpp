#include "runtime/cuda/NcclTransport.h"

#include "runtime/Error.h"
#include "runtime/cuda/Launch.h"

#include <nccl.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <thread>

namespace pdc::runtime::cuda {

namespace {

std::string toHex(const ncclUniqueId &id) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (char c : id.internal) {
    text += digits[static_cast<unsigned char>(c) >> 4];
    text += digits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

ncclUniqueId fromHex(const std::string &text) {
  ncclUniqueId id;
  if (text.size() != 2 * sizeof id.internal)
    throw Error("rank 0 sent ", text.size(), " characters instead of NCCL's id");
  for (size_t i = 0; i < sizeof id.internal; ++i)
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

class NcclTransport : public Transport {
public:
  NcclTransport(Accelerator &accelerator, Control &control, const Program &program);
  ~NcclTransport() override;
  int rank() const override { return self; }
  int ranks() const override { return size; }
  void beginGroup() override { grouping = true; }
  void endGroup() override;
  void post(std::span<Message> group) override;
  bool wait(int request, std::chrono::microseconds patience) override;
  void progress() override;
  void cancel() override;

private:
  /// Its group has been issued when `issued`; then `event` stands behind it.
  struct Request {
    cudaEvent_t event = nullptr;
    bool issued = false;
  };
  static constexpr size_t kRequests = 4096;

  void compareOrders(const Program &program);
  void warmUp(const Program &program);
  void issue();
  /// Throws Error for any result but success and "in progress".
  void require(ncclResult_t result, const char *call) const;
  /// Waits until a call that was in progress has returned.
  void settle(const char *call);

  Accelerator &accelerator;
  Control &control;
  const int self, size;
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t ready = nullptr;
  bool grouping = false;
  std::vector<Message> waiting; ///< posted, not yet issued
  std::vector<Request> requests;
  std::vector<int> free;
};

NcclTransport::NcclTransport(Accelerator &accelerator, Control &control, const Program &program)
    : accelerator(accelerator), control(control), self(control.rank()), size(control.ranks()) {
  compareOrders(program);
  cuda::require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                "cudaStreamCreateWithFlags");
  cuda::require(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming),
                "cudaEventCreateWithFlags");
  // 1. Rank 0's id on every rank.
  ncclUniqueId id{};
  if (self == 0)
    require(ncclGetUniqueId(&id), "ncclGetUniqueId");
  std::vector<std::string> all;
  control.gather(self == 0 ? toHex(id) : "", all);
  id = fromHex(all[0]);
  // 2. Non-blocking: no call holds this thread longer than the timeout.
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = 4; // messages share the GPU with the kernels of the next microbatch
  control.setActivity({"connects over NCCL"});
  require(ncclCommInitRankConfig(&communicator, size, id, self, &config), "ncclCommInitRankConfig");
  settle("ncclCommInitRankConfig");
  // 3. The room of a step, and every edge: the first message of a pair takes most of a second.
  requests.resize(kRequests);
  for (size_t i = kRequests; i-- > 0;)
    free.push_back(static_cast<int>(i));
  waiting.reserve(kRequests);
  warmUp(program);
}

/// Messages of two ranks meet in the order posted, so both must post the same.
void NcclTransport::compareOrders(const Program &program) {
  std::string mine;
  for (int peer = 0; peer < size; ++peer)
    mine += messageOrder(program, self, peer) + "\n" + messageOrder(program, peer, self) + "\n";
  std::vector<std::string> all;
  control.gather(mine, all);
  std::vector<std::vector<std::string>> lines;
  for (const std::string &text : all) {
    std::istringstream stream(text);
    lines.emplace_back();
    for (std::string line; std::getline(stream, line);)
      lines.back().push_back(line);
  }
  for (int from = 0; from < size; ++from)
    for (int to = 0; to < size; ++to)
      if (lines[from].at(2 * to) != lines[to].at(2 * from + 1))
        throw Error("rank ", from, " sends rank ", to, " messages (tag/bytes) in the order '",
                    lines[from][2 * to], "' and they are received in the order '",
                    lines[to][2 * from + 1],
                    "', which NCCL cannot tell apart; build all stages "
                    "from one plan, or report this plan");
}

void NcclTransport::warmUp(const Program &program) {
  std::set<int> peers;
  for (const Transfer &transfer : program.transfers)
    peers.insert(transfer.peers.begin(), transfer.peers.end());
  for (const StageInfo &stage : program.stages)
    peers.insert(stage.ranks.begin(), stage.ranks.end());
  peers.erase(self);
  if (peers.empty())
    return;
  std::byte *room = accelerator.allocate(256 * 2 * static_cast<int64_t>(peers.size()));
  std::vector<Message> hello;
  for (int peer : peers)
    for (bool send : {true, false}) {
      hello.push_back({send, peer, 0, room, 4});
      room += 256;
    }
  control.setActivity({"warms up its connections"});
  beginGroup();
  post(hello);
  endGroup();
  for (Message &message : hello)
    wait(message.request, std::chrono::microseconds(0));
  std::byte nothing;
  accelerator.read(&nothing, room - 256, 1);
}

/// What a failed rank has posted never ends; a communicator is given up without waiting for it.
NcclTransport::~NcclTransport() {
  if (communicator && control.failed())
    ncclCommAbort(communicator);
  else if (communicator && ncclCommFinalize(communicator) != ncclInvalidArgument)
    ncclCommDestroy(communicator);
  for (Request &request : requests)
    if (request.event)
      cudaEventDestroy(request.event);
  cudaEventDestroy(ready);
  cudaStreamDestroy(stream);
}

void NcclTransport::require(ncclResult_t result, const char *call) const {
  if (result != ncclSuccess && result != ncclInProgress)
    throw Error("rank ", self, ": ", call, " failed: ", ncclGetErrorString(result), ": ",
                ncclGetLastError(communicator));
}

void NcclTransport::settle(const char *call) {
  const Seconds begin = now();
  ncclResult_t state = ncclInProgress;
  while (true) {
    require(ncclCommGetAsyncError(communicator, &state), "ncclCommGetAsyncError");
    require(state, call);
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
    requests[message.request].issued = false;
    waiting.push_back(message);
  }
  if (!grouping)
    issue();
}

void NcclTransport::endGroup() {
  grouping = false;
  issue();
}

/// Behind all that the queue holds now: what is sent has been computed, and what a receive
/// overwrites has been read.
void NcclTransport::issue() {
  if (waiting.empty())
    return;
  auto queue = static_cast<cudaStream_t>(accelerator.queue());
  cuda::require(cudaEventRecord(ready, queue), "cudaEventRecord");
  cuda::require(cudaStreamWaitEvent(stream, ready, 0), "cudaStreamWaitEvent");
  require(ncclGroupStart(), "ncclGroupStart");
  for (const Message &message : waiting)
    if (message.send)
      require(ncclSend(message.data, size_t(message.bytes), ncclInt8, message.peer, communicator,
                       stream),
              "ncclSend");
    else
      require(ncclRecv(message.data, size_t(message.bytes), ncclInt8, message.peer, communicator,
                       stream),
              "ncclRecv");
  require(ncclGroupEnd(), "ncclGroupEnd");
  settle("a group of messages");
  for (const Message &message : waiting) {
    Request &request = requests[message.request];
    if (!request.event)
      cuda::require(cudaEventCreateWithFlags(&request.event, cudaEventDisableTiming),
                    "cudaEventCreateWithFlags");
    cuda::require(cudaEventRecord(request.event, stream), "cudaEventRecord");
    request.issued = true;
  }
  waiting.clear();
}

/// What follows in the queue waits for the message, not this thread. A message of the group that is
/// being made is issued with what there is of it: a receive overwrites what it sends.
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
  ncclResult_t state = ncclSuccess;
  require(ncclCommGetAsyncError(communicator, &state), "ncclCommGetAsyncError");
  require(state, "a message");
}

/// After a failure only: a peer that is gone never answers.
void NcclTransport::cancel() {
  if (communicator && control.failed()) {
    ncclCommAbort(communicator);
    communicator = nullptr;
  }
}

} // namespace

std::unique_ptr<Transport> connectOverNccl(Accelerator &accelerator, Control &control,
                                           const Program &program) {
  return std::make_unique<NcclTransport>(accelerator, control, program);
}

} // namespace pdc::runtime::cuda
