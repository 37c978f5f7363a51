#pragma once

#include "runtime/Control.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace pdc::runtime {

/// hub = rank 0. hello: a rank says who it is. gather / gathered: one rank's part / all parts, or
/// none where the hub alone wants them.
/// stuck, refusal: to the hub, why the run ends. ask / status: what each rank does. abort: the
/// report. stop: to the hub, a rank was asked to end early. last / heard: the last step, and that
/// a rank knows it. askRounds / rounds: how many rounds of evaluations a rank has begun, which
/// begins no other until it knows mostRounds. bye: ends well.
enum class ControlKind : uint32_t {
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
  askRounds,
  rounds,
  mostRounds,
  bye
};

struct ControlHeader {
  char magic[4];
  ControlKind kind;
  uint64_t length;
};
inline constexpr char kMagic[4] = {'p', 'd', 'c', '1'};

struct ControlPeer {
  int rank = 0;
  int socket = -1;
  std::mutex sending;
  std::string received; ///< bytes of frames that are not complete yet
  std::string part;     ///< of the gather in progress
  std::string status;
  bool hasPart = false, hasStatus = false, heard = false;
  int64_t rounds = -1; ///< not told yet
  std::atomic<bool> leaving = false;
};

/// A thread of its own, the watcher, takes what comes in, so that it is heard even when the ranks'
/// own threads are stuck.
class TcpControl : public Control {
public:
  TcpControl(const Rendezvous &rendezvous, const Listener *listener);
  ~TcpControl() override;
  void report(const LossReport &loss) override;
  void fail(const std::string &why, bool stuck) override;
  void requestStop() override;
  void announceLastStep(int64_t step) override;
  bool beginsRound() override;
  void finish() override;

protected:
  void exchange(const std::string &mine, std::vector<std::string> &all, bool everywhere) override;

private:
  void closeSockets();
  void acceptOrEndAll(const Rendezvous &rendezvous, int listener);
  void accept(const Rendezvous &rendezvous, int listener);
  std::string missing() const;
  void connect(const Rendezvous &rendezvous);
  void send(ControlPeer &peer, ControlKind kind, std::string_view text);
  void waitForAll(bool ControlPeer::*has);
  void watch();
  void readFrom(ControlPeer &peer);
  void handle(ControlPeer &peer, ControlKind kind, std::string_view text);
  void endFor(const std::string &why, bool isStuck);
  void lost(ControlPeer &peer);
  void askAll();
  void askForRounds();
  void closeRounds();
  void answerRounds(ControlPeer &peer);
  void closeCase();
  void leaveIfStuck();

  std::vector<std::unique_ptr<ControlPeer>> peers;
  std::string packet;
  std::string reason; ///< hub: why the run ends
  bool stuck = false; ///< hub: the report lists what every rank does
  std::atomic<bool> toldStop = false;
  Seconds askedAt = 0, endedAt = 0;
  std::atomic<bool> closing = false, leftMain = false;
  std::thread watcher;
};

} // namespace pdc::runtime
