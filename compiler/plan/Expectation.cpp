#include "compiler/plan/Expectation.h"

#include "compiler/plan/Cut.h"
#include "compiler/plan/PlannedRows.h"
#include "compiler/plan/Planner.h"
#include "compiler/schedule/Schedules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace pdc {

WorkOfSizes::WorkOfSizes(const Known &one, const Known &other)
    : smaller(one.size < other.size ? one : other), larger(one.size < other.size ? other : one) {}

Work WorkOfSizes::of(int64_t size) const {
  Work work = smaller.work;
  for (double Work::*seconds : {&Work::microbatch, &Work::backward, &Work::weights, &Work::path,
                                &Work::accumulation, &Work::largest})
    work.*seconds = secondsOf(size, smaller.work.*seconds, larger.work.*seconds);
  return work;
}

double WorkOfSizes::secondsOf(int64_t size, double ofSmaller, double ofLarger) const {
  auto samples = [](int64_t number) { return static_cast<double>(number); };
  const double slope = (ofLarger - ofSmaller) / samples(larger.size - smaller.size);
  // Beyond both, no sample takes less than no time, and none is done before the kernels begin.
  if (size > larger.size)
    return ofLarger + std::max(slope, 0.0) * samples(size - larger.size);
  if (size < smaller.size)
    return ofSmaller +
           std::clamp(slope, 0.0, ofSmaller / samples(smaller.size)) * samples(size - smaller.size);
  return ofSmaller + slope * samples(size - smaller.size);
}

namespace {

/// Stages that share the workers evenly.
struct Shape {
  double stages = 1, replicas = 1; ///< of each
  double microbatches = 1;         ///< per replica
};

std::vector<Shape> shapesOf(const PlanRequest &request) {
  const double workers = request.workers;
  const auto microbatches = static_cast<double>(request.microbatches);
  if (!request.replicas.empty()) {
    const auto stages = static_cast<double>(request.replicas.size());
    return {{stages, workers / stages, microbatches * request.replicas[0] * stages / workers}};
  }
  if (!request.openReplicas)
    return {
        {request.stages ? std::min<double>(request.stages, workers) : workers, 1, microbatches}};
  // Who names a schedule asks for a pipeline.
  const int fewestStages = request.schedule == "auto" ? 1 : std::min(2, request.workers);
  std::vector<Shape> shapes;
  for (int stages = request.workers; stages >= fewestStages; --stages)
    if (request.workers % stages == 0) {
      const int replicas = request.workers / stages;
      shapes.push_back({static_cast<double>(stages), static_cast<double>(replicas),
                        std::ceil(microbatches / replicas)});
    }
  return shapes;
}

std::vector<const ScheduleKind *> kindsOf(const std::string &schedule) {
  if (schedule != "auto")
    return {&findSchedule(isFileOfRows(schedule) ? "1f1b" : schedule)};
  std::vector<const ScheduleKind *> kinds;
  for (const ScheduleKind &kind : schedules())
    if (kind.synchronous)
      kinds.push_back(&kind);
  return kinds;
}

/// Seconds in which a rank waits, under the best of the schedules that are open.
double idleOf(const Work &work, const Shape &shape, const PlanRequest &request) {
  EvenPipeline even{shape.stages, 1, shape.microbatches, 0, 0, 0};
  even.forward = (work.microbatch - work.backward) / shape.stages;
  even.backward = work.backward / shape.stages;
  even.weightGradients = work.weights / shape.stages;
  double least = std::numeric_limits<double>::infinity();
  for (const ScheduleKind *kind : kindsOf(request.schedule)) {
    const bool isStraight = kind->placement == StagePlacement::straight;
    // Rounds of a loop are of as many microbatches as ranks.
    const bool isWhole =
        kind->placement != StagePlacement::loop || std::fmod(shape.microbatches, shape.stages) == 0;
    even.chunks = isStraight ? 1 : request.chunks ? request.chunks : 2;
    if (isWhole || request.schedule != "auto")
      least = std::min(least, kind->idle ? kind->idle(even) : 0.0);
  }
  // Stages of branches that run at once wait as much less.
  const double waitedFor = work.microbatch - work.weights;
  return waitedFor > 0 ? least * std::min(1.0, work.path / waitedFor) : least;
}

/// Behind the backward pass, which makes the buckets that are summed one after the other: at least
/// the last of them.
double sumsBehind(const Work &work, const Shape &shape, const PlanRequest &request,
                  const Link &slowest) {
  const auto gradients = static_cast<int64_t>(static_cast<double>(work.gradients) / shape.stages);
  const int buckets = countBuckets(request.device, gradients);
  return std::max(ringSeconds(slowest, shape.replicas, gradients / buckets),
                  ringSeconds(slowest, shape.replicas, gradients) - work.backward / shape.stages);
}

} // namespace

double expectedSecondsOfUpdate(const Work &work, const PlanRequest &request) {
  const Topology topology = planHead(request).topology;
  std::vector<int> ranks(topology.workers());
  std::iota(ranks.begin(), ranks.end(), 0);
  const Link slowest = slowestOfRing(topology, ranks);
  double least = std::numeric_limits<double>::infinity();
  for (const Shape &shape : shapesOf(request)) {
    const double all = shape.microbatches * shape.replicas * work.microbatch;
    const double pipeline =
        shape.microbatches * work.microbatch / shape.stages + idleOf(work, shape, request);
    const double computing = std::max(pipeline, all / topology.workersAtOnce(request.threads));
    const double sums = shape.replicas > 1 ? sumsBehind(work, shape, request, slowest) : 0;
    least = std::min(least, computing + work.update / shape.stages + sums);
  }
  return least;
}

} // namespace pdc
