#pragma once

#include "runtime/Accelerator.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace pdc::runtime {

/// One side of one message. Messages of the same two ranks and tag meet in the order posted.
struct Message {
  bool send = false;
  int peer = 0;
  int tag = 0;
  std::byte *data = nullptr;
  int64_t bytes = 0;
  int request = -1; ///< set by post
};

/// A message that a library was told to move, in a group of this number, by the communicator of two
/// ranks.
struct Issue {
  Message message;
  int64_t group = 0;
  int first = 0, second = 0;
  bool directed = false; ///< it moves messages from the first rank to the second alone
  bool beside = false;   ///< by the transport beside the one that was asked
};

/// Moves tensors between ranks; one object per rank, used by the thread of its tasks and, where
/// stages have replicas, that of their sums. Nothing allocates after the first messages. Between
/// accelerators a message is complete when the copy has its place in the ranks' queues: what is put
/// into them afterwards runs behind it.
class Transport {
public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// What is posted between these two starts together, as one group.
  virtual void beginGroup() {}
  virtual void endGroup() {}
  /// Starts every message of the group; none waits for another.
  virtual void post(std::span<Message> group) = 0;
  /// Waits at most `patience` until the message is complete. Its request is then free again.
  virtual bool wait(int request, std::chrono::microseconds patience) = 0;
  /// Moves open messages on, without waiting. A rank that waits for something other than messages
  /// calls it: even a send that is complete may need its sender to reach the receiver.
  virtual void progress() {}
  /// `listener` hears of each message in the order of the calls, where these are not those of post.
  virtual void whenIssued(std::function<void(const Issue &)>) {}
  /// A transport whose messages wait for the queue of `sums` alone, and neither for those of this
  /// one nor for the queue of `tasks`; none where a wait holds the thread. Messages of both may
  /// start in the order of all their calls.
  struct Beside {
    Transport *transport = nullptr;
    Accelerator *tasks = nullptr, *sums = nullptr;
  };
  virtual Beside beside() { return {}; }
  /// Takes back every open message before the buffers of a failed rank go away.
  virtual void cancel() {}
};

/// Threads of one process. A message is one copy, made by whoever comes second: a send is never
/// complete before its receive is posted. Accelerators copy beside their queues.
class LocalNetwork {
public:
  explicit LocalNetwork(int ranks);
  ~LocalNetwork();
  /// `accelerator`: of this rank; either all ranks have one or none.
  std::unique_ptr<Transport> endpoint(int rank, Accelerator *accelerator = nullptr);

private:
  class Endpoint;
  struct State;
  std::unique_ptr<State> state;
};

/// MPI, where the runtime was built with it.
bool hasMpi();
/// Initialises MPI; the destructor finalises it. `threads`: those that this rank computes with.
std::unique_ptr<Transport> makeMpiTransport(int threads);

/// What the control plane needs of a launcher that has its own channel: `text` of rank 0 on every
/// rank, and whether all ranks share one host.
std::string shareOverMpi(const std::string &text);
bool oneHostUnderMpi();

} // namespace pdc::runtime
