#include "runtime/cuda/NcclTransport.h"

#include "runtime/Error.h"
#include "runtime/cuda/CudaAccelerator.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

/// The ends of NCCL's communicators, by processes on the emulation (HostNccl.cpp), where what is
/// aborted waits for its streams as NCCL does.
namespace pdc::ends {
namespace {

using runtime::Accelerator;
using runtime::Control;
using runtime::Listener;
using runtime::Message;
using runtime::Phase;
using runtime::Rendezvous;
using runtime::StepKind;
using runtime::Transport;
namespace cuda = runtime::cuda;

/// A rank that has connected.
struct Connected {
  Control &control;
  Accelerator &accelerator;
  std::unique_ptr<Transport> transport;
  std::byte *room;

  void waitForFailure() const {
    while (!control.failed())
      std::this_thread::yield();
  }
  /// Posts a message, which what the queue holds from now on waits for.
  void exchange(Transport &over, bool send, int peer, int64_t bytes) const {
    Message message{send, peer, 0, room, bytes};
    over.post({&message, 1});
    over.wait(message.request, std::chrono::microseconds(0));
  }
};
using Connect = std::function<std::unique_ptr<Transport>(Accelerator &, Control &)>;
/// What a rank does, and whether it went well.
using Part = std::function<bool(Connected &)>;

bool play(const Rendezvous &rendezvous, const Listener *listener, const Connect &connect,
          const Part &part) {
  const std::unique_ptr<Control> control = runtime::connectOverTcp(rendezvous, listener);
  const std::unique_ptr<Accelerator> accelerator = cuda::support.open(0);
  std::byte *room = accelerator->allocate(4096);
  Connected rank{*control, *accelerator, connect(*accelerator, *control), room};
  return part(rank);
}

/// Each rank in a process of its own, which a signal ends where it hangs; whether all went well.
bool runRanks(int ranks, const Connect &connect, const Part &part) {
  constexpr unsigned kMostSeconds = 30;
  Rendezvous rendezvous{0, ranks, "127.0.0.1", 0, "ends", kMostSeconds};
  const Listener listener(rendezvous);
  rendezvous.port = listener.port();
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(fork());
    if (children.back() != 0)
      continue;
    alarm(kMostSeconds);
    rendezvous.rank = rank;
    bool isWell = false;
    try {
      isWell = play(rendezvous, rank == 0 ? &listener : nullptr, connect, part);
    } catch (const std::exception &error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    }
    _exit(isWell ? 0 : 1);
  }
  bool areWell = true;
  for (pid_t child : children) {
    int status = -1;
    areWell = waitpid(child, &status, 0) == child && status == 0 && areWell;
  }
  return areWell;
}

/// In one stream: a message to rank 1 stands behind one from rank 2 that never comes.
TEST(NcclEnds, NoneWaitsForAnothersKernel) {
  EXPECT_TRUE(runRanks(3, cuda::connectAll, [](Connected &rank) {
    if (rank.control.rank() == 0) {
      rank.exchange(*rank.transport, false, 2, 8);
      rank.exchange(*rank.transport, true, 1, 8);
      rank.control.fail("rank 2 is gone");
    }
    rank.waitForFailure();
    rank.transport->cancel();
    return true;
  }));
}

/// Two replicas of a stage, each of which sends the other tensors, too.
struct Replicas {
  explicit Replicas(int rank)
      : peer{1 - rank}, transfer{
                            "x", runtime::ElementType::f32, peer, 5, rank, Phase::forward, {0, 0},
                            8} {
    stage.ranks = both;
    program.rank = rank, program.ranks = 2;
    program.transfers = {&transfer, 1}, program.training.step = rows, program.stages = {&stage, 1};
  }
  const int both[2] = {0, 1};
  int peer[1];
  runtime::Transfer transfer;
  runtime::Step rows[2] = {{StepKind::send, Phase::forward, 0, 0, 0},
                           {StepKind::receive, Phase::forward, 0, 0, 0}};
  runtime::StageInfo stage{};
  runtime::Program program{};
};

std::unique_ptr<Transport> connectReplicas(Accelerator &accelerator, Control &control) {
  const Replicas replicas(control.rank());
  return cuda::connectPairs(accelerator, control, replicas.program);
}

/// A message behind a sum of replicas that never ends, which are given up where the tasks are; and
/// a sum behind such a message, given up at the end.
TEST(NcclEnds, NeitherMessagesNorSumsWaitForTheOther) {
  for (bool isMessage : {true, false})
    EXPECT_TRUE(runRanks(2, connectReplicas, [isMessage](Connected &rank) {
      if (rank.control.rank() == 0) {
        const Transport::Beside beside = rank.transport->beside();
        Accelerator &first = isMessage ? *beside.sums : rank.accelerator,
                    &second = isMessage ? rank.accelerator : *beside.sums;
        rank.exchange(isMessage ? *beside.transport : *rank.transport, false, 1, 8);
        const Accelerator::Mark received = first.makeMark();
        first.record(received);
        second.await(received);
        rank.exchange(isMessage ? *rank.transport : *beside.transport, true, 1, 8);
        rank.control.fail("rank 1 is gone");
      }
      rank.waitForFailure();
      if (isMessage)
        rank.transport->cancel();
      return true;
    }));
}

/// Of a communicator that has failed by itself, which no rank knows of.
TEST(NcclEnds, ABrokenOneIsNotWaitedFor) {
  EXPECT_TRUE(runRanks(2, cuda::connectAll, [](Connected &rank) {
    const bool isFirst = rank.control.rank() == 0;
    // Each is told of other bytes than the other sends.
    rank.exchange(*rank.transport, !isFirst, 1 - rank.control.rank(), isFirst ? 8 : 4);
    if (!isFirst) {
      rank.waitForFailure();
      return true;
    }
    try {
      while (true)
        rank.transport->progress();
    } catch (const runtime::Error &) {
      rank.transport.reset();
    }
    rank.control.fail("seen");
    return true;
  }));
}

} // namespace
} // namespace pdc::ends
