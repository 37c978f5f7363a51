#include "runtime/TcpControl.h"

#include "runtime/Error.h"
#include "runtime/Socket.h"

#include <algorithm>
#include <cstring>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace pdc::runtime {

/// What a rank says first. The secret keeps strangers out.
static std::string helloText(const Rendezvous &rendezvous, int rank) {
  return rendezvous.secret + " " + std::to_string(rank) + " of " + std::to_string(rendezvous.ranks);
}

TcpControl::TcpControl(const Rendezvous &rendezvous, const Listener *listener)
    : Control(rendezvous.rank, rendezvous.ranks) {
  timeout = rendezvous.timeout;
  if (self == 0 && size > 1)
    acceptOrEndAll(rendezvous, listener->handle());
  else if (self != 0)
    connect(rendezvous);
  watcher = std::thread([this] { watch(); });
}

TcpControl::~TcpControl() {
  closing = true;
  watcher.join();
  closeSockets();
}

void TcpControl::closeSockets() {
  for (auto &peer : peers)
    close(peer->socket);
}

/// Where not all come in, those that have are told why the run ends.
void TcpControl::acceptOrEndAll(const Rendezvous &rendezvous, int listener) {
  try {
    accept(rendezvous, listener);
  } catch (const Error &error) {
    for (auto &peer : peers) {
      send(*peer, ControlKind::abort, error.what());
      shutdown(peer->socket, SHUT_WR);
    }
    // What is closed with data unread may take along what it was sent.
    const Seconds deadline = now() + 0.5;
    char unread;
    for (auto &peer : peers)
      while (readExactly(peer->socket, &unread, 1, std::max(0.0, deadline - now())))
        ;
    closeSockets();
    throw;
  }
}

/// The ranks that have not said hello.
std::string TcpControl::missing() const {
  std::string list;
  for (int rank = 1; rank < size; ++rank)
    if (std::ranges::find(peers, rank, [](auto &peer) { return peer->rank; }) == peers.end())
      list += (list.empty() ? "" : ", ") + std::to_string(rank);
  return (list.find(',') == list.npos ? "rank " : "ranks ") + list;
}

void TcpControl::accept(const Rendezvous &rendezvous, int listener) {
  Seconds deadline = now() + rendezvous.timeout;
  while (int(peers.size()) < size - 1) {
    check();
    if (now() > deadline)
      throw Error("start-up: ", peers.size() + 1, " of ", size, " ranks have come in ",
                  rendezvous.timeout, " s; missing: ", missing(),
                  "; start all of them or raise --timeout");
    int socket = acceptSocket(listener, 0.2);
    if (socket < 0)
      continue;
    ControlHeader header{};
    std::string text;
    int rank = -1;
    if (readExactly(socket, &header, sizeof header, 5) && !std::memcmp(header.magic, kMagic, 4) &&
        header.kind == ControlKind::hello && header.length < 4096) {
      text.resize(header.length);
      if (readExactly(socket, text.data(), text.size(), 5))
        for (int r = 1; r < size; ++r)
          rank = text == helloText(rendezvous, r) ? r : rank;
    }
    if (rank < 0) {
      close(socket); // not one of ours
      continue;
    }
    const bool isTaken = std::ranges::any_of(peers, [&](auto &peer) { return peer->rank == rank; });
    peers.push_back(std::make_unique<ControlPeer>());
    peers.back()->rank = rank;
    peers.back()->socket = socket;
    if (isTaken)
      throw Error("start-up: two processes say that they are rank ", rank,
                  "; give each its own number (RANK)");
  }
}

void TcpControl::connect(const Rendezvous &rendezvous) {
  auto peer = std::make_unique<ControlPeer>();
  Seconds deadline = now() + rendezvous.timeout;
  while ((peer->socket = connectSocket(rendezvous.address, rendezvous.port)) < 0) {
    check();
    if (now() > deadline)
      throw Error("start-up: rank 0 does not answer at ", rendezvous.address, " port ",
                  rendezvous.port, " within ", rendezvous.timeout,
                  " s; check MASTER_ADDR and MASTER_PORT and that rank 0 runs");
    usleep(100000);
  }
  send(*peer, ControlKind::hello, helloText(rendezvous, self));
  peers.push_back(std::move(peer));
}

void TcpControl::send(ControlPeer &peer, ControlKind kind, std::string_view text) {
  ControlHeader header{{}, kind, text.size()};
  std::memcpy(header.magic, kMagic, 4);
  std::lock_guard lock(peer.sending);
  bool sent = writeAll(peer.socket, &header, sizeof header) &&
              writeAll(peer.socket, text.data(), text.size());
  // A farewell may meet a rank that has left already, and so may what asks for rounds at any time.
  bool mayMiss =
      kind == ControlKind::bye || kind == ControlKind::askRounds || kind == ControlKind::mostRounds;
  if (!sent && !mayMiss && !peer.leaving)
    lost(peer);
}

/// Until every peer has said what is waited for.
void TcpControl::waitForAll(bool ControlPeer::*has) {
  std::unique_lock lock(mutex);
  waitFor(changed, lock, [&] {
    return std::all_of(peers.begin(), peers.end(), [&](auto &peer) { return (*peer).*has; });
  });
}

static void appendPart(std::string &packet, const std::string &part) {
  uint64_t length = part.size();
  packet.append(reinterpret_cast<const char *>(&length), sizeof length);
  packet += part;
}

static void splitParts(std::string_view packet, std::vector<std::string> &all) {
  for (std::string &part : all) {
    uint64_t length = 0;
    if (packet.size() < sizeof length)
      throw Error("the control connection carries damaged data");
    std::memcpy(&length, packet.data(), sizeof length);
    packet.remove_prefix(sizeof length);
    part.assign(packet.substr(0, length));
    packet.remove_prefix(std::min<size_t>(length, packet.size()));
  }
}

void TcpControl::exchange(const std::string &mine, std::vector<std::string> &all, bool everywhere) {
  all.resize(everywhere || self == 0 ? size : 0);
  if (self != 0)
    send(*peers[0], ControlKind::gather, mine);
  waitForAll(&ControlPeer::hasPart);
  {
    std::lock_guard lock(mutex);
    if (self == 0)
      all[0] = mine;
    else
      splitParts(peers[0]->part, all);
    for (auto &peer : peers) {
      if (self == 0)
        all[peer->rank] = peer->part;
      peer->hasPart = false;
    }
  }
  if (self != 0)
    return;
  packet.clear();
  if (everywhere)
    for (const std::string &part : all)
      appendPart(packet, part);
  for (auto &peer : peers)
    send(*peer, ControlKind::gathered, packet);
}

void TcpControl::report(const LossReport &loss) {
  if (self == 0)
    return addReport(loss);
  send(*peers[0], ControlKind::loss, {reinterpret_cast<const char *>(&loss), sizeof loss});
}

/// The watcher does the work, so that it is done even when the ranks' own threads are stuck.
void TcpControl::fail(const std::string &why, bool isStuck) {
  if (self == 0)
    endFor(why, isStuck);
  else
    send(*peers[0], isStuck ? ControlKind::stuck : ControlKind::refusal, why);
  std::unique_lock lock(mutex);
  changed.wait_for(lock, std::chrono::seconds(5), [&] { return bool(ended); });
  lock.unlock();
  end(why);
  leftMain = true;
}

/// Hub: the first reason counts.
void TcpControl::endFor(const std::string &why, bool isStuck) {
  std::lock_guard lock(mutex);
  if (!reason.empty())
    return;
  reason = why;
  stuck = isStuck;
}

void TcpControl::requestStop() {
  if (self == 0)
    stopWanted = true;
  else if (!toldStop.exchange(true))
    send(*peers[0], ControlKind::stop, "");
}

void TcpControl::announceLastStep(int64_t step) {
  announced = step;
  for (auto &peer : peers)
    send(*peer, ControlKind::last, {reinterpret_cast<const char *>(&step), sizeof step});
  setActivity({"waits until all ranks know the last step"});
  waitForAll(&ControlPeer::heard);
}

bool TcpControl::beginsRound() {
  std::unique_lock lock(mutex);
  waitFor(changed, lock, [&] { return !roundsEnd || mostRounds < kUnknownRounds; });
  if (rounds == mostRounds)
    return false;
  ++rounds;
  return true;
}

void TcpControl::finish() {
  std::vector<std::string> all;
  gather("", all);
  for (auto &peer : peers)
    send(*peer, ControlKind::bye, "");
}

std::unique_ptr<Control> connectOverTcp(const Rendezvous &rendezvous, const Listener *listener) {
  return std::make_unique<TcpControl>(rendezvous, listener);
}

} // namespace pdc::runtime
