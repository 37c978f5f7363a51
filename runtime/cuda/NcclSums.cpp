#include "runtime/Error.h"
#include "runtime/cuda/Launch.h"
#include "runtime/cuda/NcclLines.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace pdc::runtime::cuda {

namespace {

/// Tensors, and beside them, with communicators and a stream of their own, the sums over replicas:
/// they begin while the backward pass still makes the other gradients, whose messages they would
/// hold up.
class TransportWithSums : public NcclTransport {
public:
  TransportWithSums(Accelerator &accelerator, Control &control, const Program &program,
                    Arrangement arrangement)
      : NcclTransport(accelerator, control, arrangement, receivers(program),
                      countOtherReplicas(program)),
        tasks(accelerator), queue(accelerator.beside()) {
    queue->whileWaiting = accelerator.whileWaiting;
    sums.emplace(*queue, control, Arrangement::pairs, otherReplicas(program));
  }
  ~TransportWithSums() override {
    if (!isSound() || !sums->isSound())
      abort();
  }
  Beside beside() override { return {&*sums, &tasks, queue.get()}; }
  void progress() override {
    NcclTransport::progress();
    sums->progress();
  }
  /// Kernels of either wait for the other's.
  void abort() override {
    ncclGroupStart();
    NcclTransport::abort();
    sums->abort();
    ncclGroupEnd();
  }
  void whenIssued(std::function<void(const Issue &)> listener) override {
    NcclTransport::whenIssued(listener);
    if (!listener)
      return sums->whenIssued({});
    sums->whenIssued([listener](Issue issue) {
      issue.beside = true;
      listener(issue);
    });
  }

private:
  static int64_t countOtherReplicas(const Program &program) {
    return int64_t(edgesOf({otherReplicas(program)}).front().size());
  }

  Accelerator &tasks;
  const std::unique_ptr<Accelerator> queue;
  std::optional<NcclTransport> sums;
};

} // namespace

/// Kernels of communicators on several streams start in the order of the calls, which is proven;
/// without that order those of two ranks may hold each other up for ever. Before CUDA 12.3 NCCL
/// keeps it by letting each kernel wait for the end of the one before, which is not proven.
static void requireOrderOfCalls() {
  constexpr int kLeast = 22600, kLeastCuda = 12030;
  int version = 0, driver = 0, runtime = 0;
  ncclGetVersion(&version);
  cuda::require(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  cuda::require(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  if (const int older = std::min(driver, runtime); older < kLeastCuda)
    throw Error(
        "CUDA ", older / 1000, ".", older / 10 % 100, " of the ",
        driver < runtime ? "driver" : "runtime",
        " runs the messages of several communicators one after the other, and this plan needs "
        "them side by side; expected 12.3 or later");
  if (version < kLeast)
    throw Error("NCCL ", version / 10000, ".", version / 100 % 100,
                " does not keep the order of "
                "calls to several communicators, which this plan needs; expected 2.26 or later");
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
}

static std::unique_ptr<Transport> connect(Accelerator &accelerator, Control &control,
                                          const Program &program, Arrangement arrangement) {
  compareOrders(program, control);
  if (arrangement == Arrangement::edges || !otherReplicas(program).empty())
    requireOrderOfCalls();
  return std::make_unique<TransportWithSums>(accelerator, control, program, arrangement);
}

std::unique_ptr<Transport> connectPairs(Accelerator &accelerator, Control &control,
                                        const Program &program) {
  return connect(accelerator, control, program, Arrangement::pairs);
}

std::unique_ptr<Transport> connectEdges(Accelerator &accelerator, Control &control,
                                        const Program &program) {
  return connect(accelerator, control, program, Arrangement::edges);
}

} // namespace pdc::runtime::cuda
