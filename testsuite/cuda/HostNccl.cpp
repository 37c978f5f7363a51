/// NCCL between processes of one host, for runtime/cuda/NcclTransport.cpp on HostStreams. As the
/// real one it promises nothing that NCCL does not: a send ends when its receiver has taken the
/// last byte, a group is one operation of its stream, messages of two ranks of a communicator meet
/// in the order of the calls, and a message that nobody meets waits for ever. With
/// NCCL_LAUNCH_ORDER_IMPLICIT=1 a group starts when all that this process has called before have
/// started, of whatever communicator and stream. To abort a communicator waits for its groups,
/// which may stand behind those of others; in a group of aborts, once all are told.
/// HOST_NCCL_LOSES=N: the N-th group of this process waits for ever.
#include "testsuite/cuda/HostStreams.h"

#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

/// What goes from one rank of a communicator to another, in memory that both processes map.
struct Channel {
  static constexpr int64_t kRoom = int64_t(1) << 16;
  std::atomic<int64_t> sends, receives; ///< that have begun
  std::atomic<int64_t> size;            ///< of the newest send
  std::atomic<int64_t> written, taken;  ///< bytes, of all messages
  std::byte room[kRoom];
};

/// The memory of a communicator: this, then a channel for each pair of ranks and direction.
struct Meeting {
  std::atomic<int> arrived;
};

} // namespace

struct ncclComm {
  Meeting *meeting = nullptr;
  int rank = 0, ranks = 1;
  std::atomic<ncclResult_t> state = ncclInProgress;
  bool ends = false;                    ///< it is finalised
  std::atomic<int> open = 0;            ///< groups that have not ended
  std::vector<int64_t> sends, receives; ///< by peer: messages begun

  Channel &channel(int from, int to) const {
    auto *channels = reinterpret_cast<Channel *>(reinterpret_cast<std::byte *>(meeting) + 64);
    return channels[from * ranks + to];
  }
};

namespace {

/// One side of one message, as far as it has come.
struct Side {
  bool send;
  int peer;
  std::byte *data;
  int64_t bytes;
  bool begun = false, met = false;
  int64_t number = 0, moved = 0;

  bool proceed(ncclComm &comm);

private:
  void begin(ncclComm &comm, Channel &channel);
  bool meet(ncclComm &comm, Channel &channel);
  void moveSome(Channel &channel);
};

void Side::begin(ncclComm &comm, Channel &channel) {
  begun = true;
  number = (send ? comm.sends : comm.receives)[size_t(peer)]++;
  if (send)
    channel.size = bytes;
  ++(send ? channel.sends : channel.receives);
}

/// Whether the other side has begun, too.
bool Side::meet(ncclComm &comm, Channel &channel) {
  met = (send ? channel.receives : channel.sends) > number;
  if (met && !send && channel.size != bytes) {
    std::fprintf(stderr, "NCCL: rank %d receives %lld bytes where rank %d sends %lld\n", comm.rank,
                 static_cast<long long>(bytes), peer, static_cast<long long>(channel.size.load()));
    comm.state = ncclInvalidUsage;
    met = false;
  }
  return met;
}

void Side::moveSome(Channel &channel) {
  const int64_t limit = send ? channel.taken + Channel::kRoom : channel.written.load();
  std::atomic<int64_t> &end = send ? channel.written : channel.taken;
  while (moved < bytes && end < limit) {
    const int64_t at = end % Channel::kRoom;
    const int64_t count = std::min({bytes - moved, limit - end, Channel::kRoom - at});
    if (send)
      std::memcpy(channel.room + at, data + moved, size_t(count));
    else
      std::memcpy(data + moved, channel.room + at, size_t(count));
    moved += count;
    end += count;
  }
}

/// Whether it has ended.
bool Side::proceed(ncclComm &comm) {
  Channel &channel = send ? comm.channel(comm.rank, peer) : comm.channel(peer, comm.rank);
  if (!begun)
    begin(comm, channel);
  if (!met && !meet(comm, channel))
    return false;
  moveSome(channel);
  return moved == bytes && (!send || channel.taken == channel.written);
}

using Started = std::shared_ptr<std::atomic<bool>>;

/// What a group has for one communicator: one kernel. Sides of one peer and direction take turns.
struct Group {
  ncclComm_t comm;
  cudaStream_t stream;
  std::vector<Side> sides;

  bool lost = false;
  Started started, before; ///< the latter of the group called before; null: in any order

  bool proceed() {
    if (comm->state != ncclSuccess)
      return comm->state == ncclInternalError; // aborted
    if (lost || (before && !*before))
      return false;
    *started = true;
    std::map<std::pair<bool, int>, bool> blocked;
    std::erase_if(sides, [&](Side &side) {
      bool &waits = blocked[{side.send, side.peer}];
      const bool ended = !waits && side.proceed(*comm);
      waits = waits || !ended;
      return ended;
    });
    return sides.empty();
  }
};

int64_t lostGroup() {
  const char *number = std::getenv("HOST_NCCL_LOSES");
  return number ? std::atoll(number) : 0;
}

thread_local int depth = 0;
thread_local int64_t issued = 0;
thread_local std::vector<Group> groups;
thread_local Started newest;
thread_local std::vector<ncclComm_t> aborted; ///< not yet waited for

bool keepsOrder() {
  const char *order = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  return order && std::string_view(order) == "1";
}

ncclResult_t add(const Side &side, ncclComm_t comm, cudaStream_t stream) {
  if (comm->state != ncclSuccess || side.peer < 0 || side.peer >= comm->ranks)
    return ncclInvalidArgument;
  ncclGroupStart();
  auto same = [&](const Group &group) { return group.comm == comm && group.stream == stream; };
  auto group = std::ranges::find_if(groups, same);
  if (group == groups.end())
    group = groups.insert(groups.end(), {.comm = comm, .stream = stream});
  group->sides.push_back(side);
  return ncclGroupEnd();
}

void waitForEnd(const ncclComm &comm) {
  while (comm.open > 0)
    usleep(100);
}

Meeting *map(const char *path, size_t bytes) {
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0 || ftruncate(file, off_t(bytes)) != 0)
    return nullptr;
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<Meeting *>(memory);
}

} // namespace

extern "C" {

/// Memory without a name, which others find as a file of this process while it lives.
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  const int file = memfd_create("nccl", 0);
  std::snprintf(id->internal, sizeof id->internal, "/proc/%d/fd/%d", int(getpid()), file);
  return file < 0 ? ncclSystemError : ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *result, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  if (config->blocking != 0)
    return ncclInvalidArgument;
  const size_t bytes = 64 + sizeof(Channel) * size_t(ranks) * size_t(ranks);
  auto comm = std::make_unique<ncclComm>();
  comm->meeting = map(id.internal, bytes);
  if (!comm->meeting)
    return ncclSystemError;
  comm->rank = rank;
  comm->ranks = ranks;
  for (std::vector<int64_t> *counts : {&comm->sends, &comm->receives})
    counts->resize(size_t(ranks));
  ++comm->meeting->arrived;
  const char *seed = std::getenv("RANK");
  pdc::testing::runStreamsByThemselves(seed ? unsigned(std::atoi(seed)) : 0);
  *result = comm.release();
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state) {
  if (comm->state == ncclInProgress && comm->meeting->arrived >= comm->ranks)
    comm->state = ncclSuccess;
  *state = comm->ends && comm->state == ncclSuccess && comm->open > 0 ? ncclInProgress
                                                                      : comm->state.load();
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  if (++depth == 1)
    pdc::testing::countMessages(1);
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--depth > 0)
    return ncclSuccess;
  for (Group &group : groups) {
    ++group.comm->open;
    pdc::testing::countMessages(1);
    group.lost = ++issued == lostGroup();
    group.started = std::make_shared<std::atomic<bool>>(false);
    group.before = keepsOrder() ? newest : nullptr;
    newest = group.started;
    auto shared = std::make_shared<Group>(std::move(group));
    pdc::testing::enqueueUntilTrue(shared->stream, [shared] {
      const bool ended = shared->proceed();
      shared->comm->open -= ended;
      pdc::testing::countMessages(-int(ended));
      return ended;
    });
  }
  groups.clear();
  for (ncclComm_t comm : std::exchange(aborted, {}))
    waitForEnd(*comm);
  pdc::testing::countMessages(-1);
  return ncclSuccess;
}

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  auto *bytes = static_cast<std::byte *>(const_cast<void *>(data));
  return add({true, peer, bytes, int64_t(count)}, comm, stream);
}

ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add({false, peer, static_cast<std::byte *>(data), int64_t(count)}, comm, stream);
}

/// Ends what has been issued; what nobody meets, never.
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  comm->ends = true;
  return comm->state == ncclSuccess ? ncclInProgress : comm->state.load();
}

/// The memory stays: operations of streams that nobody waits for may still name it.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  waitForEnd(*comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->state = ncclInternalError;
  ncclGroupStart();
  aborted.push_back(comm);
  return ncclGroupEnd();
}

const char *ncclGetErrorString(ncclResult_t) { return "an error"; }
const char *ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclGetVersion(int *version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

} // extern "C"
