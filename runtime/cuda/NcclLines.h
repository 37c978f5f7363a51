#pragma once

#include "runtime/Control.h"
#include "runtime/Transport.h"
#include "runtime/cuda/NcclTransport.h"

#include <nccl.h>

#include <array>
#include <map>
#include <vector>

namespace pdc::runtime::cuda {

/// One communicator of two ranks, and the stream that its messages run on.
struct Line {
  int peer = 0;
  int key = 0; ///< of the ranks' common order
  ncclUniqueId id{};
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Message> waiting; ///< of the group that is being issued
};

class NcclTransport : public Transport {
public:
  /// Connects what `receivers` of all ranks say. `summedWith`: the ranks that another transport of
  /// this process exchanges sums with.
  NcclTransport(Accelerator &accelerator, Control &control, Arrangement arrangement,
                const std::string &receivers, int64_t summedWith = 0);
  ~NcclTransport() override;
  int rank() const override { return self; }
  int ranks() const override { return size; }
  void beginGroup() override { grouping = true; }
  void endGroup() override;
  void post(std::span<Message> group) override;
  bool wait(int request, std::chrono::microseconds patience) override;
  void progress() override;
  void cancel() override;
  void whenIssued(std::function<void(const Issue &)> listener) override { issued = listener; }

  /// Whether no rank and none of the communicators has failed.
  bool isSound() const;
  /// Gives up all communicators.
  virtual void abort();

private:
  /// Its group has been issued when `issued`; then `event` stands behind it.
  struct Request {
    cudaEvent_t event = nullptr;
    bool issued = false;
  };
  static constexpr size_t kRequests = 4096;

  void makeLines(const std::vector<std::vector<int>> &edges);
  void requireQueues(int64_t summedWith) const;
  void shareIds();
  void connect();
  void warmUp();
  void issue();
  void issue(Line &line);
  bool finish(Line &line);
  cudaStream_t makeStream();
  Line &lineOf(const Message &message);
  /// Throws Error for any result but success and "in progress".
  void require(ncclResult_t result, const char *call, ncclComm_t communicator = nullptr) const;
  /// Waits until a call that was in progress has returned.
  void settle(const Line &line, const char *call);

  Accelerator &accelerator;
  Control &control;
  const int self, size;
  const Arrangement arrangement;
  std::vector<Line> lines;                  ///< by peer
  std::array<std::map<int, int>, 2> lineTo; ///< by whether it sends, and peer
  std::vector<cudaStream_t> streams;
  cudaEvent_t ready = nullptr;
  bool grouping = false;
  std::vector<Message> waiting; ///< posted, not yet issued
  std::vector<Request> requests;
  std::vector<int> free;
  std::function<void(const Issue &)> issued;
  int64_t calls = 0; ///< groups issued
};

} // namespace pdc::runtime::cuda
