#include "runtime/Socket.h"

#include "runtime/Control.h"
#include "runtime/Error.h"
#include "runtime/RankPlace.h"
#include "runtime/Transport.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <random>
#include <sys/socket.h>
#include <unistd.h>

namespace pdc::runtime {

static void tune(int socket) {
  int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  timeval patience{60, 0};
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

int acceptSocket(int listener, double patience) {
  pollfd handle{listener, POLLIN, 0};
  if (poll(&handle, 1, int(patience * 1000)) <= 0)
    return -1;
  int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket >= 0)
    tune(socket);
  return socket;
}

static int connectOne(const std::string &host, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return -1;
  int result = -1;
  for (addrinfo *at = found; at && result < 0; at = at->ai_next) {
    int handle = ::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = connect(handle, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    pollfd waiting{handle, POLLOUT, 0};
    socklen_t length = sizeof error;
    if (error == EINPROGRESS && poll(&waiting, 1, 3000) == 1)
      getsockopt(handle, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error == 0) {
      fcntl(handle, F_SETFL, fcntl(handle, F_GETFL) & ~O_NONBLOCK);
      tune(handle);
      result = handle;
    } else {
      close(handle);
    }
  }
  freeaddrinfo(found);
  return result;
}

int connectSocket(const std::string &addresses, int port) {
  for (size_t begin = 0; begin <= addresses.size();) {
    size_t end = std::min(addresses.find(',', begin), addresses.size());
    int socket = connectOne(addresses.substr(begin, end - begin), port);
    if (socket >= 0)
      return socket;
    begin = end + 1;
  }
  return -1;
}

bool readExactly(int socket, void *data, size_t bytes, double patience) {
  auto *at = static_cast<char *>(data);
  while (bytes > 0) {
    pollfd handle{socket, POLLIN, 0};
    if (poll(&handle, 1, int(patience * 1000)) <= 0)
      return false;
    ssize_t count = recv(socket, at, bytes, 0);
    if (count <= 0)
      return false;
    at += count;
    bytes -= size_t(count);
  }
  return true;
}

bool writeAll(int socket, const void *data, size_t bytes) {
  auto *at = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t count = ::send(socket, at, bytes, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    at += count;
    bytes -= size_t(count);
  }
  return true;
}

Listener::Listener(const Rendezvous &rendezvous) {
  socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(rendezvous.port));
  address.sin_addr.s_addr =
      rendezvous.address.empty() ? htonl(INADDR_ANY) : inet_addr(rendezvous.address.c_str());
  socklen_t length = sizeof address;
  if (bind(socket, reinterpret_cast<sockaddr *>(&address), length) != 0 ||
      listen(socket, 1024) != 0)
    throw Error("rank 0 cannot listen on port ", rendezvous.port, ": ", std::strerror(errno),
                "; choose another MASTER_PORT");
  getsockname(socket, reinterpret_cast<sockaddr *>(&address), &length);
  boundPort = ntohs(address.sin_port);
}

Listener::~Listener() { close(socket); }

std::string hostName() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string hostAddresses() {
  std::string list;
  ifaddrs *all = nullptr;
  if (getifaddrs(&all) == 0)
    for (ifaddrs *at = all; at; at = at->ifa_next)
      if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET) {
        auto *address = reinterpret_cast<sockaddr_in *>(at->ifa_addr);
        char text[INET_ADDRSTRLEN];
        inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
        if (std::strncmp(text, "127.", 4) != 0)
          list += std::string(text) + ",";
      }
  freeifaddrs(all);
  return list + hostName();
}

static int portNumber(const std::string &text) {
  int port = 0;
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (problem != std::errc() || end != text.data() + text.size() || port < 1 || port > 65535)
    throw Error("MASTER_PORT is '", text, "', expected a number from 1 to 65535");
  return port;
}

/// torchrun listens on MASTER_PORT itself, for its processes' store: rank 0 takes the port beside.
static int portOfRankZero(const std::string &text) {
  const int port = portNumber(text);
  const char *store = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const bool isTaken = store && std::string_view(store) == "True";
  return !isTaken ? port : port < 65535 ? port + 1 : port - 1;
}

std::unique_ptr<Control> connectRanks(int rank, int ranks, bool mpi, Seconds timeout) {
  Rendezvous rendezvous{rank, ranks, "", 0, "pdc", timeout};
  const char *address = std::getenv("MASTER_ADDR"), *port = std::getenv("MASTER_PORT");
  std::unique_ptr<Listener> listener;
  if (address && port) {
    rendezvous.port = portOfRankZero(port);
    rendezvous.address = rank == 0 ? "" : address;
    if (rank == 0)
      listener = std::make_unique<Listener>(rendezvous);
  } else if (mpi) {
    // Rank 0 tells where it listens and a number that only this run knows.
    bool oneHost = oneHostUnderMpi();
    std::string text;
    if (rank == 0) {
      rendezvous.address = oneHost ? "127.0.0.1" : "";
      listener = std::make_unique<Listener>(rendezvous);
      std::random_device random;
      text = std::to_string(random()) + std::to_string(random()) + " " +
             std::to_string(listener->port()) + " " + (oneHost ? "127.0.0.1" : hostAddresses());
    }
    std::istringstream shared(shareOverMpi(text));
    shared >> rendezvous.secret >> rendezvous.port >> rendezvous.address;
  } else if (ranks > 1) {
    throw Error("rank ", rank, " of ", ranks, " does not know where rank 0 listens; ",
                rendezvousAdvice());
  }
  return connectOverTcp(rendezvous, listener.get());
}

} // namespace pdc::runtime
