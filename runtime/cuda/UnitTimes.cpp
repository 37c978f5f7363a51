#include "runtime/cuda/UnitTimes.h"

#include "runtime/Error.h"
#include "runtime/UnitTimes.h"
#include "runtime/cuda/Launch.h"
#include "runtime/cuda/QueueGate.h"

#include <vector>

namespace pdc::runtime::cuda {

namespace {

/// So many units may stand in the queue while it is held back; it has room for some more kernels.
constexpr int kMostHeld = 200;

/// Of all tasks of the process, which one thread puts into one queue.
class DeviceTimes {
public:
  /// The device may be gone: what the last task took stays unknown.
  ~DeviceTimes() { writeUnitTimes(seconds); }

  /// Where the next part begins.
  cudaEvent_t mark(cudaStream_t stream) {
    if (unused.empty())
      require(cudaEventCreateWithFlags(&unused.emplace_back(), cudaEventDefault),
              "cudaEventCreateWithFlags");
    last = unused.back();
    unused.pop_back();
    used.push_back(last);
    require(cudaEventRecord(last, stream), "cudaEventRecord");
    return last;
  }

  void end(cudaStream_t stream, std::initializer_list<UnitShare> shares) {
    cudaEvent_t from = last;
    parts.push_back({from, mark(stream), shares});
  }

  /// Waits for the tasks so far.
  void collect() {
    if (!used.empty())
      require(cudaEventSynchronize(used.back()), "cudaEventSynchronize");
    for (const Part &part : parts) {
      float milliseconds = 0;
      require(cudaEventElapsedTime(&milliseconds, part.from, part.to), "cudaEventElapsedTime");
      for (const UnitShare &share : part.shares) {
        if (share.unit >= seconds.size())
          seconds.resize(share.unit + 1);
        seconds[share.unit].push_back(1e-3 * milliseconds * share.share);
      }
    }
    parts.clear();
    unused.insert(unused.end(), used.begin(), used.end());
    used.clear();
  }

private:
  struct Part {
    cudaEvent_t from, to;
    std::vector<UnitShare> shares;
  };

  std::vector<Part> parts; ///< not read yet
  std::vector<cudaEvent_t> unused, used;
  cudaEvent_t last = nullptr;
  std::vector<std::vector<double>> seconds;
};

DeviceTimes &deviceTimes() {
  static DeviceTimes times;
  return times;
}

} // namespace

MeasuredTask::MeasuredTask(const Run &run) : run(run) {
  if (isRecorded(run))
    throw Error("units are timed kernel by kernel only; start the program with --no-graphs");
  deviceTimes().collect();
  gate = std::make_unique<QueueGate>(streamOf(run));
  deviceTimes().mark(streamOf(run));
}

MeasuredTask::~MeasuredTask() = default;

void MeasuredTask::end(std::initializer_list<UnitShare> shares) {
  deviceTimes().end(streamOf(run), shares);
  if (++ended == kMostHeld)
    gate->open();
}

} // namespace pdc::runtime::cuda
