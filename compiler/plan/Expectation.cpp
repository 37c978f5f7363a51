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
  for (double Work::*seconds : {&Work::microbatch, &Work::backward, &Work::weights})
    work.*seconds = secondsOf(size, smaller.work.*seconds, larger.work.*seconds);
  return work;
}

double WorkOfSizes::secondsOf(int64_t size, double ofSmaller, double ofLarger) const {
  auto samples = [](int64_t number) { return static_cast<double>(number); };
  // No sample takes less than no time, and none is done before the kernels begin.
  const double perSample = std::clamp((ofLarger - ofSmaller) / samples(larger.size - smaller.size),
                                      0.0, ofSmaller / samples(smaller.size));
  return ofSmaller + perSample * samples(size - smaller.size);
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
    return {{request.stages ? static_cast<double>(request.stages) : workers, 1, microbatches}};
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

/// For how long all stages together wait for one another while a pipeline fills and empties: nobody
/// for weight gradients that run apart, and those of the microbatches before are done meanwhile
/// (Zero Bubble Pipeline Parallelism, section 2: ZB-H1).
double filling(const Work &work, const Shape &shape, const std::string &schedule) {
  const double others = shape.stages - 1;
  if (isFileOfRows(schedule))
    return others * work.microbatch;
  if (schedule == "auto" || splitsBackward(findSchedule(schedule)))
    return others * (work.microbatch - work.weights) -
           std::min(others, shape.microbatches - 1) * work.weights;
  return findSchedule(schedule).synchronous ? others * work.microbatch : 0;
}

/// All but the last buckets of gradients are summed while the last microbatch goes back.
double sumsBehind(const Work &work, const Shape &shape, const Link &slowest) {
  const auto gradients = static_cast<int64_t>(static_cast<double>(work.gradients) / shape.stages);
  return std::max(0.0,
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
        (shape.microbatches * work.microbatch + filling(work, shape, request.schedule)) /
        shape.stages;
    const double computing = std::max(pipeline, all / topology.workersAtOnce(request.threads));
    least =
        std::min(least, computing + work.update / shape.stages + sumsBehind(work, shape, slowest));
  }
  return least;
}

} // namespace pdc
