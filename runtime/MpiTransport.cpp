#include "runtime/Transport.h"

#include "runtime/Cores.h"
#include "runtime/Error.h"

#include <algorithm>
#include <climits>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#ifdef PDC_RUNTIME_MPI
#include <mpi.h>
#endif

namespace pdc::runtime {

#ifdef PDC_RUNTIME_MPI

bool hasMpi() { return true; }

namespace {

void require(int code, const char *call) {
  if (code == MPI_SUCCESS)
    return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(call, " failed: ", std::string_view(text, size_t(length)));
}

class MpiTransport : public Transport {
public:
  explicit MpiTransport(int threads);
  ~MpiTransport() override;
  int rank() const override { return self; }
  int ranks() const override { return size; }
  void post(std::span<Message> group) override;
  bool wait(int request, std::chrono::microseconds patience) override;
  void progress() override;

private:
  bool isComplete(int request);
  void keepMoving();
  void stopMoving();

  std::mutex mutex; ///< held in every call of MPI: several threads of this rank make them
  MPI_Comm world = MPI_COMM_NULL;
  int self = 0, size = 1;
  std::thread::id computing = std::this_thread::get_id(); ///< the rank's own thread
  int restlessPolls; ///< of that thread, before a wait leaves the core to others for short times
  std::vector<MPI_Request> requests;
  std::vector<int> expected; ///< by request: bytes to receive, -1 for a send
  std::vector<char> isLong;  ///< by request: a send that needs its sender to move it
  std::vector<int> free;
  int longSends = 0; ///< that are open
  bool ending = false;
  std::condition_variable changed; ///< longSends or ending
  std::thread mover;
};

/// A message of up to so many bytes leaves its sender at once: Open MPI hands it to the socket,
/// which moves it while both ranks compute. For a larger one both must be inside MPI calls. (Over
/// a link of 1 Gbit/s 1f1b took 42 ms a step instead of 60.)
constexpr int64_t kEagerBytes = 1 << 20;

/// Between two looks at a message.
constexpr std::chrono::microseconds kShortPause(20);

/// By so many buffers grows what Open MPI keeps in shared memory for messages that wait for a slow
/// rank. It grows by 64 otherwise: a ninth waiting message takes 256 KiB, in some runs and not in
/// others, which every plan would have to hold ready.
constexpr int kBuffersAtOnce = 8;

/// What the user sets goes first.
static void setParameters() {
  auto set = [](const char *name, int64_t value) {
    setenv(name, std::to_string(value).c_str(), 0);
  };
  set("OMPI_MCA_btl_tcp_eager_limit", kEagerBytes);
  set("OMPI_MCA_btl_tcp_max_send_size", kEagerBytes);
  set("OMPI_MCA_btl_vader_free_list_inc", kBuffersAtOnce);
}

/// Where the threads of the ranks outnumber the cores of their host, a rank that polls takes a core
/// from one that computes. Launchers may give each rank cores of its own.
static int countRestlessPolls(MPI_Comm world, int threads) {
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  cpu_set_t cores = usableCoreSet();
  MPI_Allreduce(MPI_IN_PLACE, &cores, int(sizeof cores), MPI_BYTE, MPI_BOR, host);
  MPI_Allreduce(MPI_IN_PLACE, &threads, 1, MPI_INT, MPI_SUM, host);
  MPI_Comm_free(&host);
  return threads > CPU_COUNT(&cores) ? 10 : 2000;
}

MpiTransport::MpiTransport(int threads) {
  setParameters();
  int started = 0, provided = MPI_THREAD_SINGLE;
  MPI_Initialized(&started);
  if (started)
    MPI_Query_thread(&provided);
  else
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (provided < MPI_THREAD_SERIALIZED)
    throw Error(
        "this MPI lets only one thread call it, and sums over replicas run on a second one; "
        "use an MPI with MPI_THREAD_SERIALIZED, or --transport local");
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  MPI_Comm_rank(world, &self);
  MPI_Comm_size(world, &size);
  restlessPolls = countRestlessPolls(world, threads);
  requests.resize(4096, MPI_REQUEST_NULL);
  expected.resize(requests.size());
  isLong.resize(requests.size());
  for (int i = int(requests.size()); i-- > 0;)
    free.push_back(i);
  mover = std::thread([this] { keepMoving(); });
}

/// A process that leaves with an error never comes here: finalising waits for all ranks.
MpiTransport::~MpiTransport() {
  stopMoving();
  MPI_Comm_free(&world);
  MPI_Finalize();
}

void MpiTransport::post(std::span<Message> group) {
  std::lock_guard lock(mutex);
  for (Message &message : group) {
    if (message.bytes > INT_MAX)
      throw Error("a tensor of ", message.bytes, " bytes crosses ranks and MPI takes at most ",
                  INT_MAX, "; use smaller microbatches");
    if (free.empty())
      throw Error("rank ", self, " has ", requests.size(),
                  " messages open and posts another; use fewer "
                  "microbatches per update");
    message.request = free.back();
    free.pop_back();
    MPI_Request *request = &requests[message.request];
    int bytes = int(message.bytes);
    expected[message.request] = message.send ? -1 : bytes;
    isLong[message.request] = message.send && bytes > kEagerBytes;
    longSends += isLong[message.request];
    if (message.send)
      require(MPI_Isend(message.data, bytes, MPI_BYTE, message.peer, message.tag, world, request),
              "MPI_Isend");
    else
      require(MPI_Irecv(message.data, bytes, MPI_BYTE, message.peer, message.tag, world, request),
              "MPI_Irecv");
  }
  if (longSends > 0)
    changed.notify_one();
}

/// A rank that computes makes no calls, and its receiver would wait for the end of its kernels: a
/// long send goes on meanwhile. (Tensors of 4 MB over a link of 110 MB/s, kernels of 150 ms: gpipe
/// took 3.83 s a step instead of 5.05, as played.) Nothing is called while there is none.
void MpiTransport::keepMoving() {
  constexpr std::chrono::microseconds pause(100);
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return ending || longSends > 0; });
    if (ending)
      return;
    int found = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &found, MPI_STATUS_IGNORE);
    lock.unlock();
    std::this_thread::sleep_for(pause);
    lock.lock();
  }
}

void MpiTransport::stopMoving() {
  {
    std::lock_guard lock(mutex);
    ending = true;
  }
  changed.notify_one();
  mover.join();
}

bool MpiTransport::isComplete(int request) {
  std::lock_guard lock(mutex);
  int done = 0, received = 0;
  MPI_Status status;
  require(MPI_Test(&requests[request], &done, &status), "MPI_Test");
  if (!done)
    return false;
  MPI_Get_count(&status, MPI_BYTE, &received);
  if (expected[request] >= 0 && received != expected[request])
    throw Error("rank ", status.MPI_SOURCE, " sent ", received, " bytes and rank ", self,
                " expects ", expected[request], "; build all stages from one plan");
  longSends -= std::exchange(isLong[request], 0);
  free.push_back(request);
  return true;
}

/// Of a thread beside the one that computes, from whose core each look takes some 20 us: a part of
/// the time it has waited, so that it comes hardly later. (Sums of 47 MB over 1 Gbit/s took their
/// thread 3.1 s of the core in 5 updates, and take 1.3 s.)
static std::chrono::microseconds pauseBeside(std::chrono::steady_clock::time_point begin) {
  constexpr std::chrono::microseconds longest(500);
  auto waited = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - begin);
  return std::clamp(waited / 20, kShortPause, longest);
}

/// MPI moves data only inside its calls. A thread beside the one that computes never polls without
/// rest: where cores are few it would take one from a rank's kernels.
bool MpiTransport::wait(int request, std::chrono::microseconds patience) {
  bool computes = std::this_thread::get_id() == computing;
  auto begin = std::chrono::steady_clock::now();
  for (int polls = 0;; ++polls) {
    if (isComplete(request))
      return true;
    if (std::chrono::steady_clock::now() - begin >= patience)
      return false;
    if (computes && polls < restlessPolls)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(computes ? kShortPause : pauseBeside(begin));
  }
}

/// Any call moves all messages on.
void MpiTransport::progress() {
  std::lock_guard lock(mutex);
  int found = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &found, MPI_STATUS_IGNORE);
}

} // namespace

std::unique_ptr<Transport> makeMpiTransport(int threads) {
  return std::make_unique<MpiTransport>(threads);
}

std::string shareOverMpi(const std::string &text) {
  int length = int(text.size());
  MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::string shared = text;
  shared.resize(length);
  MPI_Bcast(shared.data(), length, MPI_CHAR, 0, MPI_COMM_WORLD);
  return shared;
}

bool oneHostUnderMpi() {
  MPI_Comm host = MPI_COMM_NULL;
  int here = 0, all = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &here);
  MPI_Comm_size(MPI_COMM_WORLD, &all);
  MPI_Comm_free(&host);
  int same = here == all, everywhere = 0;
  MPI_Allreduce(&same, &everywhere, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return everywhere;
}

#else

bool hasMpi() { return false; }
std::unique_ptr<Transport> makeMpiTransport(int) {
  throw Error("this runtime was built without MPI; install libopenmpi-dev and build again, or use "
              "--transport local");
}
std::string shareOverMpi(const std::string &text) { return text; }
bool oneHostUnderMpi() { return true; }

#endif

} // namespace pdc::runtime
