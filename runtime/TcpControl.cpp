#include "runtime/Control.h"
#include "runtime/Error.h"
#include "runtime/Socket.h"

#include <algorithm>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace pdc::runtime {

namespace {

/// hub = rank 0. hello: a rank says who it is. gather / gathered: one rank's part / all parts.
/// stuck, refusal: to the hub, why the run ends. ask / status: what each rank does. abort: the
/// report. stop: to the hub, a rank was asked to end early. last / heard: the last step, and that
/// a rank knows it. bye: ends well.
enum class Kind : uint32_t {
  hello,
  gather,
  gathered,
  loss,
  stuck,
  refusal,
  ask,
  status,
  abort,
  stop,
  last,
  heard,
  bye
};

struct Header {
  char magic[4];
  Kind kind;
  uint64_t length;
};
constexpr char kMagic[4] = {'p', 'd', 'c', '1'};
constexpr uint64_t kLongestFrame = uint64_t(1) << 32;

struct Peer {
  int rank = 0;
  int socket = -1;
  std::mutex sending;
  std::string received; ///< bytes of frames that are not complete yet
  std::string part;     ///< of the gather in progress
  std::string status;
  bool hasPart = false, hasStatus = false, heard = false;
  std::atomic<bool> leaving = false;
};

class TcpControl : public Control {
public:
  TcpControl(const Rendezvous &rendezvous, const Listener *listener);
  ~TcpControl() override;
  void gather(const std::string &mine, std::vector<std::string> &all) override;
  void report(const LossReport &loss) override;
  void fail(const std::string &why, bool stuck) override;
  void requestStop() override;
  void announceLastStep(int64_t step) override;
  void finish() override;

private:
  void accept(const Rendezvous &rendezvous, int listener);
  void connect(const Rendezvous &rendezvous);
  void send(Peer &peer, Kind kind, std::string_view text);
  void waitForAll(bool Peer::*has);
  void watch();
  void readFrom(Peer &peer);
  void handle(Peer &peer, Kind kind, std::string_view text);
  void endFor(const std::string &why, bool isStuck);
  void lost(Peer &peer);
  void askAll();
  void closeCase();
  void leaveIfStuck();

  std::vector<std::unique_ptr<Peer>> peers;
  std::string packet;
  std::string reason; ///< hub: why the run ends
  bool stuck = false; ///< hub: the report lists what every rank does
  bool toldStop = false;
  Seconds askedAt = 0, endedAt = 0;
  std::atomic<bool> closing = false, leftMain = false;
  std::thread watcher;
};

/// What a rank says first. The secret keeps strangers out.
std::string helloText(const Rendezvous &rendezvous, int rank) {
  return rendezvous.secret + " " + std::to_string(rank) + " of " + std::to_string(rendezvous.ranks);
}

TcpControl::TcpControl(const Rendezvous &rendezvous, const Listener *listener)
    : Control(rendezvous.rank, rendezvous.ranks) {
  timeout = rendezvous.timeout;
  if (self == 0 && size > 1)
    accept(rendezvous, listener->handle());
  else if (self != 0)
    connect(rendezvous);
  watcher = std::thread([this] { watch(); });
}

TcpControl::~TcpControl() {
  closing = true;
  watcher.join();
  for (auto &peer : peers)
    close(peer->socket);
}

void TcpControl::accept(const Rendezvous &rendezvous, int listener) {
  Seconds deadline = now() + rendezvous.timeout;
  while (int(peers.size()) < size - 1) {
    check();
    if (now() > deadline)
      throw Error("start-up: ", peers.size() + 1, " of ", size, " ranks have come in ",
                  rendezvous.timeout, " s; start all of them or raise --timeout");
    int socket = acceptSocket(listener, 0.2);
    if (socket < 0)
      continue;
    Header header{};
    std::string text;
    int rank = -1;
    if (readExactly(socket, &header, sizeof header, 5) && !std::memcmp(header.magic, kMagic, 4) &&
        header.kind == Kind::hello && header.length < 4096) {
      text.resize(header.length);
      if (readExactly(socket, text.data(), text.size(), 5))
        for (int r = 1; r < size; ++r)
          rank = text == helloText(rendezvous, r) ? r : rank;
    }
    for (auto &peer : peers)
      if (peer->rank == rank)
        throw Error("start-up: two processes say that they are rank ", rank);
    if (rank < 0) {
      close(socket); // not one of ours
      continue;
    }
    peers.push_back(std::make_unique<Peer>());
    peers.back()->rank = rank;
    peers.back()->socket = socket;
  }
}

void TcpControl::connect(const Rendezvous &rendezvous) {
  auto peer = std::make_unique<Peer>();
  Seconds deadline = now() + rendezvous.timeout;
  while ((peer->socket = connectSocket(rendezvous.address, rendezvous.port)) < 0) {
    check();
    if (now() > deadline)
      throw Error("start-up: rank 0 does not answer at ", rendezvous.address, " port ",
                  rendezvous.port, " within ", rendezvous.timeout,
                  " s; check MASTER_ADDR and MASTER_PORT and that rank 0 runs");
    usleep(100000);
  }
  send(*peer, Kind::hello, helloText(rendezvous, self));
  peers.push_back(std::move(peer));
}

void TcpControl::send(Peer &peer, Kind kind, std::string_view text) {
  Header header{{}, kind, text.size()};
  std::memcpy(header.magic, kMagic, 4);
  std::lock_guard lock(peer.sending);
  bool sent = writeAll(peer.socket, &header, sizeof header) &&
              writeAll(peer.socket, text.data(), text.size());
  // A farewell may meet a rank that has left already.
  if (!sent && kind != Kind::bye && !peer.leaving)
    lost(peer);
}

/// Until every peer has said what is waited for.
void TcpControl::waitForAll(bool Peer::*has) {
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

void TcpControl::gather(const std::string &mine, std::vector<std::string> &all) {
  all.resize(size);
  if (self != 0)
    send(*peers[0], Kind::gather, mine);
  waitForAll(&Peer::hasPart);
  {
    std::lock_guard lock(mutex);
    all[0] = mine;
    if (self != 0)
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
  for (const std::string &part : all)
    appendPart(packet, part);
  for (auto &peer : peers)
    send(*peer, Kind::gathered, packet);
}

void TcpControl::report(const LossReport &loss) {
  if (self == 0)
    return addReport(loss);
  send(*peers[0], Kind::loss, {reinterpret_cast<const char *>(&loss), sizeof loss});
}

/// The watcher does the work, so that it is done even when the ranks' own threads are stuck.
void TcpControl::fail(const std::string &why, bool isStuck) {
  if (self == 0)
    endFor(why, isStuck);
  else
    send(*peers[0], isStuck ? Kind::stuck : Kind::refusal, why);
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
  else if (!std::exchange(toldStop, true))
    send(*peers[0], Kind::stop, "");
}

void TcpControl::announceLastStep(int64_t step) {
  announced = step;
  for (auto &peer : peers)
    send(*peer, Kind::last, {reinterpret_cast<const char *>(&step), sizeof step});
  setActivity({"waits until all ranks know the last step"});
  waitForAll(&Peer::heard);
}

void TcpControl::finish() {
  std::vector<std::string> all;
  gather("", all);
  for (auto &peer : peers)
    send(*peer, Kind::bye, "");
}

void TcpControl::watch() {
  std::vector<pollfd> handles;
  while (!closing) {
    handles.clear();
    for (auto &peer : peers)
      handles.push_back({peer->leaving ? -1 : peer->socket, POLLIN, 0});
    ::poll(handles.data(), handles.size(), 20);
    for (size_t i = 0; i < handles.size(); ++i)
      if (handles[i].revents)
        readFrom(*peers[i]);
    askAll();
    closeCase();
    leaveIfStuck();
  }
}

void TcpControl::readFrom(Peer &peer) {
  char chunk[1 << 16];
  ssize_t count = recv(peer.socket, chunk, sizeof chunk, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (count <= 0)
    return lost(peer);
  peer.received.append(chunk, size_t(count));
  size_t begin = 0;
  Header header;
  while (peer.received.size() - begin >= sizeof header) {
    std::memcpy(&header, peer.received.data() + begin, sizeof header);
    if (std::memcmp(header.magic, kMagic, 4) || header.length > kLongestFrame)
      return lost(peer);
    if (peer.received.size() - begin - sizeof header < header.length)
      break;
    handle(peer, header.kind,
           std::string_view(peer.received).substr(begin + sizeof header, header.length));
    begin += sizeof header + header.length;
  }
  peer.received.erase(0, begin);
}

void TcpControl::handle(Peer &peer, Kind kind, std::string_view text) {
  if (kind == Kind::ask)
    return send(peer, Kind::status, describeActivity());
  if (kind == Kind::abort)
    return end(std::string(text));
  if (kind == Kind::stuck || kind == Kind::refusal)
    return endFor(std::string(text), kind == Kind::stuck);
  LossReport loss;
  if (kind == Kind::loss && text.size() == sizeof loss) {
    std::memcpy(&loss, text.data(), sizeof loss);
    return addReport(loss);
  }
  int64_t step = 0;
  if (kind == Kind::last && text.size() == sizeof step) {
    std::memcpy(&step, text.data(), sizeof step);
    announced = step;
    return send(peer, Kind::heard, "");
  }
  std::lock_guard lock(mutex);
  if (kind == Kind::gather || kind == Kind::gathered) {
    peer.part.assign(text);
    peer.hasPart = true;
    changed.notify_all();
  } else if (kind == Kind::stop) {
    stopWanted = true;
  } else if (kind == Kind::heard) {
    peer.heard = true;
    changed.notify_all();
  } else if (kind == Kind::status) {
    peer.status = text;
    peer.hasStatus = true;
  } else if (kind == Kind::bye) {
    peer.leaving = true;
  }
}

void TcpControl::lost(Peer &peer) {
  std::string why = "rank " + std::to_string(peer.rank) + " has ended without a word";
  if (self != 0 && !ended) {
    end(why + "\n  " + describeActivity());
    std::fprintf(stderr, "error: %s\n", endReport.c_str());
  }
  if (self == 0)
    endFor(why, true);
  std::lock_guard lock(mutex);
  peer.leaving = peer.hasStatus = true;
  peer.status = "rank " + std::to_string(peer.rank) + " is gone";
}

/// Hub: once nothing moves, every rank is asked what it does.
void TcpControl::askAll() {
  {
    std::lock_guard lock(mutex);
    if (reason.empty() || askedAt > 0)
      return;
    askedAt = now();
    if (!stuck)
      return;
  }
  for (auto &peer : peers)
    if (!peer->leaving)
      send(*peer, Kind::ask, "");
}

/// Hub: when all have answered, or half a second later, the report goes to everybody.
void TcpControl::closeCase() {
  if (askedAt == 0 || ended)
    return;
  std::string report;
  {
    std::lock_guard lock(mutex);
    bool all = true;
    for (auto &peer : peers)
      all = all && (!stuck || peer->hasStatus);
    if (!all && now() - askedAt < 0.5)
      return;
    report = reason;
  }
  if (running && stuck) {
    report += "\n  " + describeActivity();
    for (auto &peer : peers)
      report +=
          "\n  " + (peer->hasStatus ? peer->status
                                    : "rank " + std::to_string(peer->rank) + " does not answer");
  }
  // Printed here: launchers kill the other ranks as soon as one is gone.
  std::fprintf(stderr, "error: %s\n", report.c_str());
  for (auto &peer : peers)
    send(*peer, Kind::abort, report);
  end(report);
}

/// A rank whose own thread computes on and on, or hangs, is ended here.
void TcpControl::leaveIfStuck() {
  if (!ended || leftMain)
    return;
  if (endedAt == 0)
    endedAt = now();
  if (now() - endedAt < 10)
    return;
  std::_Exit(1);
}

} // namespace

std::unique_ptr<Control> connectOverTcp(const Rendezvous &rendezvous, const Listener *listener) {
  return std::make_unique<TcpControl>(rendezvous, listener);
}

} // namespace pdc::runtime
