#pragma once

#include "runtime/Program.h"
#include "runtime/QuantityText.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace pdc::runtime {

using Seconds = double;
Seconds now(); ///< monotonic

/// What a rank does at this moment, for the report when nothing moves any more.
struct Activity {
  const char *verb = "starts up";
  const char *tensor = ""; ///< of a transfer
  int peer = -1;
  int stage = -1;
  Phase phase = Phase::forward;
  int64_t step = 0;
  int64_t microbatch = -1;
  Seconds since = 0;
};

/// The loss of one step, or of a replica's part of it, sent to rank 0 by the rank that owns it
/// (asynchronous schedules).
struct LossReport {
  int64_t step;
  int part, parts;
  double loss, weight;
};

constexpr int64_t kUnknownRounds = std::numeric_limits<int64_t>::max();

/// Everything ranks say to one another apart from tensors. Every wait ends: by success, by the
/// timeout, or by the failure of any rank, which reaches all of them as one report.
class Control {
public:
  virtual ~Control() = default;
  int rank() const { return self; }
  int ranks() const { return size; }

  /// Every rank's text on every rank, by rank.
  void gather(const std::string &mine, std::vector<std::string> &all) { exchange(mine, all, true); }
  /// Every rank's text on rank 0, by rank; elsewhere `all` is empty. No rank returns before rank 0
  /// has the texts, so that none of them pile up there.
  void collect(const std::string &mine, std::vector<std::string> &all) {
    exchange(mine, all, false);
  }
  /// Sends a loss to rank 0 without waiting.
  virtual void report(const LossReport &loss) = 0;
  /// Ends the run on all ranks: `why` becomes the report, which `check` throws everywhere. Where
  /// nothing moves any more (`stuck`), the report also lists what every rank does.
  virtual void fail(const std::string &why, bool stuck = false) = 0;
  /// Tells rank 0 that this rank was asked to end early.
  virtual void requestStop() = 0;
  /// Rank 0: the run ends behind update `step`. Returns when all ranks know.
  virtual void announceLastStep(int64_t step) = 0;
  /// Whether this rank begins another round of an evaluation, whose rounds are alike on all ranks.
  /// Once any was asked to end early, only as many as some rank has begun, so that each message
  /// finds its receiver.
  virtual bool beginsRound() = 0;
  /// Tells the others that this rank ends well.
  virtual void finish() {}

  /// Sum over ranks, added in rank order; the same bits on every rank.
  void sum(std::span<double> values);
  /// Moves the losses reported so far into `losses` (rank 0).
  void takeReports(std::vector<LossReport> &losses);
  /// Throws the report if any rank has failed, and before training runs also when a signal came.
  void check();
  /// Rank 0: whether any rank was asked to end early.
  bool stopRequested() const { return stopWanted; }
  /// The announced last update.
  int64_t lastStep() const { return announced; }
  /// Whether rounds come to an early end: nobody needs what they compute.
  bool endsRounds() const { return roundsEnd; }
  bool failed() const { return ended; }
  /// What this rank does from now on; returns what it did before.
  Activity setActivity(const Activity &activity);
  /// `progress` is called now and then while this rank's thread waits here; empty: nothing is.
  void whileWaiting(std::function<void()> progress) { keepMoving = std::move(progress); }
  std::string describeActivity();

  Seconds timeout = 600;
  /// Set once training runs: from then on a report lists what every rank does.
  std::atomic<bool> running = false;

protected:
  Control(int rank, int size);
  virtual void exchange(const std::string &mine, std::vector<std::string> &all,
                        bool everywhere) = 0;
  void end(const std::string &report);
  void addReport(const LossReport &loss);
  /// Waits for `done`, which `changed` announces, and for the other ranks no longer than allowed.
  template <class Done>
  void waitFor(std::condition_variable &changed, std::unique_lock<std::mutex> &lock, Done done);

  const int self, size;
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> ended = false, stopWanted = false;
  std::atomic<int64_t> announced = std::numeric_limits<int64_t>::max();
  std::atomic<bool> roundsEnd = false;
  int64_t rounds = 0; ///< begun, of all evaluations
  int64_t mostRounds = kUnknownRounds;
  std::string endReport;

private:
  template <class Done>
  void waitAWhile(std::condition_variable &changed, std::unique_lock<std::mutex> &lock, Done done);
  Activity activity;
  std::function<void()> keepMoving;
  std::vector<LossReport> losses;
  std::string summed;
  std::vector<std::string> parts;
};

template <class Done>
void Control::waitFor(std::condition_variable &changed, std::unique_lock<std::mutex> &lock,
                      Done done) {
  Seconds begin = now();
  while (!done()) {
    lock.unlock();
    check();
    if (now() - begin > timeout) {
      fail("rank " + std::to_string(self) + " has waited for the other ranks longer than the " +
               secondsText(timeout) + " of --timeout",
           true);
      check();
    }
    lock.lock();
    waitAWhile(changed, lock, done);
  }
}

/// One short wait.
template <class Done>
void Control::waitAWhile(std::condition_variable &changed, std::unique_lock<std::mutex> &lock,
                         Done done) {
  if (!keepMoving) {
    changed.wait_for(lock, std::chrono::milliseconds(100), done);
    return;
  }
  lock.unlock();
  keepMoving();
  lock.lock();
  changed.wait_for(lock, std::chrono::microseconds(200), done);
}

/// The ranks of one process.
class LocalControlPlane {
public:
  explicit LocalControlPlane(int ranks);
  ~LocalControlPlane();
  Control &of(int rank);

private:
  class Member;
  struct State;
  std::unique_ptr<State> state;
};

/// How the ranks of several processes find each other.
struct Rendezvous {
  int rank = 0, ranks = 1;
  std::string address; ///< rank 0: what to listen on, "" everywhere; others: candidates, by ','
  int port = 0;        ///< 0 on rank 0: any
  std::string secret;  ///< a connection without it is not one of ours
  Seconds timeout = 600;
};

/// A socket of rank 0 that waits for the others; made before its address is shared.
class Listener {
public:
  explicit Listener(const Rendezvous &rendezvous);
  ~Listener();
  int port() const { return boundPort; }
  int handle() const { return socket; }

private:
  int socket = -1, boundPort = 0;
};

/// Rank 0 is the hub of a star of TCP connections. `listener`: rank 0 only.
std::unique_ptr<Control> connectOverTcp(const Rendezvous &rendezvous, const Listener *listener);
/// This host's addresses and name, separated by ','.
std::string hostAddresses();
std::string hostName();

/// Finds the others: MASTER_ADDR and MASTER_PORT (under torchrun the port behind it), else rank 0's
/// address over MPI.
std::unique_ptr<Control> connectRanks(int rank, int ranks, bool mpi, Seconds timeout);

/// SIGINT or SIGTERM once either was asked for: training ends behind the step in progress.
extern std::atomic<int> stopSignal;

} // namespace pdc::runtime
