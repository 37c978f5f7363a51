#include "runtime/StartWatch.h"

#include "runtime/RankPlace.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace pdc::runtime {

/// What distinguishes a run from others on the same host.
static std::string jobName() {
  std::string name;
  for (const char *variable : {"PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"})
    if (const char *value = std::getenv(variable))
      name += std::string(value) + "-";
  return name;
}

/// Of a rank's socket: without a file, so that nothing of it is left.
static socklen_t makeAddress(const std::string &job, int rank, sockaddr_un &address) {
  const std::string name = "pdc-start-" + job + std::to_string(rank);
  address = {};
  address.sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + length);
}

StartWatch::StartWatch(Seconds timeout)
    : timeout(timeout), wake(eventfd(0, EFD_CLOEXEC)), job(jobName()) {
  if (std::optional<RankPlace> place = placeFromEnvironment(); place && !job.empty()) {
    rank = place->rank;
    ranks = place->ranks;
    socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address;
    const socklen_t length = makeAddress(job, rank, address);
    if (socket < 0 || bind(socket, reinterpret_cast<sockaddr *>(&address), length) != 0)
      rank = -1;
  }
  thread = std::thread([this] { watch(); });
}

StartWatch::~StartWatch() {
  ending = true;
  eventfd_write(wake, 1);
  thread.join();
  for (int handle : {socket, wake})
    if (handle >= 0)
      close(handle);
}

/// Answers whoever asks, and takes answers. Time in which this process was stopped does not count:
/// what goes on then, as where a launcher ends it, has not missed the others.
void StartWatch::hear(Seconds patience) {
  constexpr Seconds slice = 0.05;
  Seconds before = now();
  for (Seconds waited = 0; waited < patience && !ending;) {
    pollfd handles[] = {{rank < 0 ? -1 : socket, POLLIN, 0}, {wake, POLLIN, 0}};
    poll(handles, std::size(handles), int(slice * 1000));
    const Seconds after = now();
    waited += std::min(after - before, 4 * slice);
    before = after;
    if (!(handles[0].revents & POLLIN))
      continue;
    struct {
      char kind;
      int from;
    } told{};
    if (recv(socket, &told, sizeof told, MSG_DONTWAIT) != sizeof told || told.from < 0 ||
        told.from >= ranks)
      continue;
    if (told.kind == 'a' && !states.empty())
      states[size_t(told.from)] = State::here;
    if (told.kind != 'q')
      continue;
    sockaddr_un address;
    const socklen_t length = makeAddress(job, told.from, address);
    told = {'a', rank};
    sendto(socket, &told, sizeof told, MSG_DONTWAIT, reinterpret_cast<sockaddr *>(&address),
           length);
  }
}

void StartWatch::ask() {
  states.assign(size_t(ranks), State::elsewhere);
  struct {
    char kind;
    int from;
  } question{'q', rank};
  for (int other = 0; other < ranks; ++other) {
    sockaddr_un address;
    const socklen_t length = makeAddress(job, other, address);
    if (sendto(socket, &question, sizeof question, MSG_DONTWAIT,
               reinterpret_cast<sockaddr *>(&address), length) == sizeof question)
      states[size_t(other)] = State::silent;
  }
}

/// Behind a semicolon each, those that may be stopped and those that are not seen here.
std::string StartWatch::missing() const {
  std::string silent, absent;
  for (size_t other = 0; other < states.size(); ++other) {
    std::string &list = states[other] == State::silent ? silent : absent;
    if (states[other] != State::here)
      list += (list.empty() ? "" : ", ") + std::to_string(other);
  }
  std::string text;
  if (!silent.empty())
    text += "; of this host's ranks these are stopped or hang: " + silent;
  if (!absent.empty())
    text += "; these have ended, have not begun or are on other hosts: " + absent;
  return text;
}

void StartWatch::watch() {
  hear(timeout);
  if (ending)
    return;
  if (rank >= 0) {
    ask();
    // Those that began later ask later; they find an answer, too.
    hear(1);
  }
  if (ending)
    return;
  const auto first = std::ranges::find(states, State::here);
  if (rank < 0 || first - states.begin() >= rank) {
    std::fflush(stdout);
    std::fprintf(stderr,
                 "error: start-up: MPI has not brought all ranks together within %s (--timeout)%s; "
                 "see why they are missing and start all ranks again, or raise --timeout\n",
                 secondsText(timeout).c_str(), missing().c_str());
  } else
    usleep(500000);
  std::_Exit(1);
}

} // namespace pdc::runtime
