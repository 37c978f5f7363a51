#include "runtime/TcpControl.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

/// What TcpControl's own thread does: it takes frames, and ends the run on all ranks.
namespace pdc::runtime {

constexpr uint64_t kLongestFrame = uint64_t(1) << 32;

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
    // The rank's own thread may wait for others, whose evaluation ends early, too.
    if (stopSignal && running)
      requestStop();
    askForRounds();
    closeRounds();
    leaveIfStuck();
  }
}

void TcpControl::readFrom(ControlPeer &peer) {
  char chunk[1 << 16];
  ssize_t count = recv(peer.socket, chunk, sizeof chunk, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (count <= 0)
    return lost(peer);
  peer.received.append(chunk, size_t(count));
  size_t begin = 0;
  ControlHeader header;
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

void TcpControl::handle(ControlPeer &peer, ControlKind kind, std::string_view text) {
  if (kind == ControlKind::ask)
    return send(peer, ControlKind::status, describeActivity());
  if (kind == ControlKind::abort)
    return end(std::string(text));
  if (kind == ControlKind::stuck || kind == ControlKind::refusal)
    return endFor(std::string(text), kind == ControlKind::stuck);
  LossReport loss;
  if (kind == ControlKind::loss && text.size() == sizeof loss) {
    std::memcpy(&loss, text.data(), sizeof loss);
    return addReport(loss);
  }
  int64_t step = 0;
  if (kind == ControlKind::last && text.size() == sizeof step) {
    std::memcpy(&step, text.data(), sizeof step);
    announced = step;
    return send(peer, ControlKind::heard, "");
  }
  if (kind == ControlKind::askRounds)
    return answerRounds(peer);
  std::lock_guard lock(mutex);
  if ((kind == ControlKind::rounds || kind == ControlKind::mostRounds) &&
      text.size() == sizeof(int64_t)) {
    std::memcpy(self == 0 ? &peer.rounds : &mostRounds, text.data(), sizeof(int64_t));
    changed.notify_all();
  } else if (kind == ControlKind::gather || kind == ControlKind::gathered) {
    peer.part.assign(text);
    peer.hasPart = true;
    changed.notify_all();
  } else if (kind == ControlKind::stop) {
    stopWanted = true;
  } else if (kind == ControlKind::heard) {
    peer.heard = true;
    changed.notify_all();
  } else if (kind == ControlKind::status) {
    peer.status = text;
    peer.hasStatus = true;
  } else if (kind == ControlKind::bye) {
    peer.leaving = true;
  }
}

void TcpControl::lost(ControlPeer &peer) {
  std::string why = "rank " + std::to_string(peer.rank) +
                    " has ended without a word (killed, perhaps for memory); --resume goes on from "
                    "the last checkpoint, where one was saved";
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
      send(*peer, ControlKind::ask, "");
}

/// Hub: when all have answered, or half a second later, the report goes to everybody.
void TcpControl::closeCase() {
  if (askedAt == 0 || ended)
    return;
  std::string report, own = describeActivity();
  {
    std::lock_guard lock(mutex);
    bool all = true;
    for (auto &peer : peers)
      all = all && (!stuck || peer->hasStatus);
    if (!all && now() - askedAt < 0.5)
      return;
    report = reason;
    if (running && stuck) {
      report += "\n  " + own;
      for (auto &peer : peers)
        report +=
            "\n  " + (peer->hasStatus ? peer->status
                                      : "rank " + std::to_string(peer->rank) + " does not answer");
    }
  }
  // Printed here: launchers kill the other ranks as soon as one is gone.
  std::fprintf(stderr, "error: %s\n", report.c_str());
  for (auto &peer : peers)
    send(*peer, ControlKind::abort, report);
  end(report);
}

static std::string_view bytesOf(const int64_t &number) {
  return {reinterpret_cast<const char *>(&number), sizeof number};
}

/// Hub: once any rank was asked to end early. From here on none begins a round before all know how
/// many there are.
void TcpControl::askForRounds() {
  if (self != 0 || roundsEnd || !stopWanted)
    return;
  {
    std::lock_guard lock(mutex);
    roundsEnd = true;
  }
  for (auto &peer : peers)
    send(*peer, ControlKind::askRounds, "");
}

void TcpControl::answerRounds(ControlPeer &peer) {
  int64_t begun = 0;
  {
    std::lock_guard lock(mutex);
    roundsEnd = true;
    begun = rounds;
  }
  send(peer, ControlKind::rounds, bytesOf(begun));
}

/// Hub: when all have answered.
void TcpControl::closeRounds() {
  int64_t most = 0;
  {
    std::lock_guard lock(mutex);
    if (self != 0 || !roundsEnd || mostRounds < kUnknownRounds)
      return;
    most = rounds;
    for (const auto &peer : peers) {
      if (peer->rounds < 0)
        return;
      most = std::max(most, peer->rounds);
    }
    mostRounds = most;
    changed.notify_all();
  }
  for (auto &peer : peers)
    send(*peer, ControlKind::mostRounds, bytesOf(most));
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

} // namespace pdc::runtime
