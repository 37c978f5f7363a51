#pragma once

#include "runtime/Control.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace pdc::runtime {

/// Ends this process where MPI has not brought all ranks together in time: its calls wait for a
/// rank that has ended, or is stopped, without end and without a word. Watches as long as it lives.
/// The ranks of a host answer one another beside MPI, so that the lowest of them can say who is
/// missing.
class StartWatch {
public:
  explicit StartWatch(Seconds timeout);
  ~StartWatch();
  StartWatch(const StartWatch &) = delete;
  StartWatch &operator=(const StartWatch &) = delete;

private:
  void watch();
  void ask();
  void hear(Seconds patience);
  std::string missing() const;

  enum class State { elsewhere, silent, here };
  const Seconds timeout;
  int rank = -1, ranks = 0; ///< as the launcher tells them; -1: it does not
  int socket = -1;
  int wake = -1; ///< ends the thread's wait
  std::string job;
  std::vector<State> states; ///< by rank, once they were asked
  std::atomic<bool> ending = false;
  std::thread thread;
};

} // namespace pdc::runtime
