#include "compiler/plan/Baselines.h"

#include "compiler/cost/ClosedForm.h"
#include "compiler/plan/Bounds.h"
#include "compiler/plan/Connections.h"
#include "compiler/plan/PlanMemory.h"
#include "compiler/schedule/Schedules.h"
#include "compiler/simulator/PlanSimulation.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace pdc {

namespace {

/// Runs up to which GPipe's rows are played; beyond, a sum speaks for them.
constexpr int64_t kMostPlayedRuns = 100'000;

double forwardOf(const Plan &plan) {
  return std::accumulate(
      plan.stages.begin(), plan.stages.end(), 0.0,
      [](double sum, const PlanStage &stage) { return sum + stage.forwardSeconds; });
}

class BaselineMaker {
public:
  BaselineMaker(const Plan &plan, const BaselineParts &parts) : plan(plan), parts(parts) {}

  Baseline singleDevice() const {
    auto count = static_cast<double>(plan.schedule.microbatches);
    int64_t most = plan.topology.memoryBytes;
    for (int64_t bytes : plan.topology.memoryOfWorker)
      most = std::max(most, bytes);
    return ofWhole("single_device", plan.singleDeviceSecondsPerMinibatch, 0,
                   count * forwardOf(plan), most);
  }
  Baseline dataParallel() const {
    auto count = static_cast<double>(plan.schedule.microbatches);
    PlanStage whole;
    whole.replicas = plan.topology.workers();
    whole.ranks.resize(plan.topology.workers());
    std::iota(whole.ranks.begin(), whole.ranks.end(), 0);
    const int64_t connections = connectionBytesOfStages(plan.device, {whole.ranks}, {})[0];
    for (const PlanStage &stage : plan.stages) {
      whole.gradientBytes += stage.gradientBytes;
      whole.stateBytes += stage.stateBytes;
    }
    return ofWhole("data_parallel", plan.dataParallelSecondsPerMinibatch,
                   reductionBytes(plan.device, whole) + connections,
                   count * forwardOf(plan) / plan.topology.workersAtOnce(plan.threads),
                   plan.topology.memoryBytes);
  }
  Baseline modelParallel() const;
  Baseline gpipe() const;

private:
  /// Each device holds the whole model and has one microbatch on the way.
  Baseline ofWhole(const char *name, double seconds, int64_t beside, double secondForward,
                   int64_t deviceBytes) const {
    int64_t limit = parts.memoryBytes ? parts.memoryBytes : deviceBytes;
    StageDepth depth;
    depth.inputsBeside = holdsInputsBeside(plan.device);
    depth.spreads = plan.device == "cpu";
    StageHolding held =
        holdStage(parts.whole, depth, beside, limit, parts.recompute.kind == RecomputeChoice::all,
                  parts.recompute.may(0));
    return {name, seconds + (held.recompute ? secondForward : 0), held.bytes, held.recompute,
            !limit || held.bytes <= limit};
  }
  /// The plan's stages in another way.
  Baseline ofStages(const char *name, double seconds, const Plan &other) const;
  /// The plan's stages as other rows hold them, with what those recompute.
  Plan under(Schedule rows) const;
  Schedule depthsOnly(int64_t microbatches) const;
  Schedule gpipeRows() const;
  double gpipeSeconds(const Plan &other) const;

  const Plan &plan;
  const BaselineParts &parts;
};

Plan BaselineMaker::under(Schedule rows) const {
  Plan other = plan;
  other.schedule = std::move(rows);
  for (PlanStage &stage : other.stages)
    if (std::exchange(stage.recompute, false))
      stage.backwardSeconds -= stage.forwardSeconds;
  addMemory(other, parts.cut, parts.recompute, {parts.memoryBytes});
  return other;
}

/// So many microbatches on their way at once, shared by the replicas of each stage; no rows.
Schedule BaselineMaker::depthsOnly(int64_t microbatches) const {
  Schedule schedule;
  schedule.microbatches = microbatches;
  schedule.ranksOfStage = plan.schedule.ranksOfStage;
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    int64_t replicas = schedule.replicas(stage);
    schedule.slots.push_back(static_cast<int>((microbatches + replicas - 1) / replicas));
    schedule.versions.push_back(1);
  }
  return schedule;
}

Baseline BaselineMaker::ofStages(const char *name, double seconds, const Plan &other) const {
  Baseline baseline{name, seconds};
  std::vector<int64_t> bytes = memoryByRank(other);
  for (size_t i = 0; i < bytes.size(); ++i) {
    int rank = static_cast<int>(i);
    int64_t limit = deviceBytes(plan.topology, std::span(&rank, 1), parts.memoryBytes);
    baseline.memoryBytes = std::max(baseline.memoryBytes, bytes[i]);
    baseline.fits &= !limit || bytes[i] <= limit;
  }
  baseline.recompute = std::ranges::any_of(other.stages, &PlanStage::recompute);
  return baseline;
}

Baseline BaselineMaker::modelParallel() const {
  Plan other = under(depthsOnly(1));
  double seconds = plan.modelParallelSecondsPerMinibatch;
  for (const PlanStage &stage : other.stages)
    if (stage.recompute)
      seconds += static_cast<double>(plan.schedule.microbatches) * stage.forwardSeconds;
  return ofStages("model_parallel", seconds, other);
}

/// Of as many microbatches as the plan's update has; where that sums none, GPipe fills its pipeline
/// with four per worker.
Schedule BaselineMaker::gpipeRows() const {
  int64_t microbatches = plan.schedule.sumsMicrobatches() ? plan.schedule.microbatches
                                                          : 4 * int64_t(plan.topology.workers());
  Pipeline pipeline{static_cast<int>(plan.stages.size()), plan.schedule.ranksOfStage, microbatches};
  bool rows = microbatches * pipeline.stages <= kMostPlayedRuns && !isClosedForm(plan.costModel);
  Schedule schedule = depthsOnly(microbatches);
  if (rows)
    schedule.ranks = pdc::gpipe(pipeline).ranks;
  return schedule;
}

/// A flow shop of equal jobs takes one job's way through all machines and then the slowest
/// machine's time for each of the others; GPipe is two of them, forward and backward, whose
/// machines are stages and the links between.
double BaselineMaker::gpipeSeconds(const Plan &other) const {
  if (!other.schedule.ranks.empty())
    return simulatedSecondsPerMinibatch(other);
  double way = 0, slowestForward = 0, slowestBackward = 0, end = 0;
  auto count = static_cast<double>(other.schedule.microbatches);
  for (const PlanStage &stage : other.stages) {
    way += stage.forwardSeconds + stage.backwardSeconds;
    slowestForward = std::max(slowestForward, stage.forwardSeconds / stage.replicas);
    slowestBackward = std::max(slowestBackward, stage.backwardSeconds / stage.replicas);
    end = std::max(end, stage.updateSeconds +
                            reductionSeconds(other.topology, stage.ranks, stage.gradientBytes));
  }
  PlayCosts costs = playCosts(other);
  for (const Edge &edge : other.edges) {
    bool forward = edge.producer == Phase::forward;
    double share = costs.edges[edge.id] / other.stages[edge.fromStage].replicas;
    way += costs.edges[edge.id];
    (forward ? slowestForward : slowestBackward) =
        std::max(forward ? slowestForward : slowestBackward, share);
  }
  return way + (count - 1) * (slowestForward + slowestBackward) + end;
}

Baseline BaselineMaker::gpipe() const {
  Plan other = under(gpipeRows());
  double seconds = plan.scheduleName == "gpipe" ? plan.secondsPerMinibatch : gpipeSeconds(other);
  if (!plan.schedule.sumsMicrobatches())
    seconds /= static_cast<double>(other.schedule.microbatches);
  return ofStages("gpipe", seconds, other);
}

} // namespace

std::vector<Baseline> findBaselines(const Plan &plan, const BaselineParts &parts) {
  BaselineMaker maker(plan, parts);
  return {maker.singleDevice(), maker.dataParallel(), maker.modelParallel(), maker.gpipe()};
}

int64_t nearestSharedMinibatch(const Plan &plan) {
  const int64_t replicas = plan.topology.workers();
  if (plan.minibatch % replicas == 0)
    return plan.minibatch;
  const int64_t unit =
      plan.schedule.microbatches > replicas ? replicas * plan.microbatchSize : replicas;
  return std::max<int64_t>(1, (2 * plan.minibatch + unit) / (2 * unit)) * unit;
}

double dataParallelSeconds(const PlanGraph &graph, const Topology &topology, int threads,
                           int64_t microbatches, bool asynchronous) {
  Work work(graph);
  double workers = topology.workers(), atOnce = topology.workersAtOnce(threads);
  const double slowdown = topology.slowdownOfAll(work.slowdown, threads);
  double microbatch = slowdown * work.microbatch / atOnce;
  double update = topology.slowdownOfAll(work.updateSlowdown, threads) * work.update / atOnce;
  std::vector<int> ring(topology.workers());
  std::iota(ring.begin(), ring.end(), 0);
  Link slowest = slowestOfRing(topology, ring);
  double sum = ringSeconds(slowest, workers, work.gradients) +
               2 * std::max(0.0, workers - 2) * slowest.latencySeconds;
  if (asynchronous)
    return microbatch + update + sum / workers;
  const auto count = static_cast<double>(microbatches);
  double added =
      slowdown * std::max(0.0, count / workers - 1) * work.accumulation * workers / atOnce;
  return count * microbatch + added + workers * update + sum;
}

double modelParallelSeconds(const Plan &plan, double work) {
  for (const Edge &edge : plan.edges) {
    if (plan.stages[edge.fromStage].ranks == plan.stages[edge.toStage].ranks)
      continue;
    Link link = plan.topology.linkBetween(plan.stages[edge.fromStage].ranks[0],
                                          plan.stages[edge.toStage].ranks[0]);
    double count = static_cast<double>(plan.schedule.microbatches);
    work += count * link.latencySeconds;
    if (link.bytesPerSecond > 0)
      work += count * static_cast<double>(edge.bytes) / link.bytesPerSecond;
  }
  return work;
}

} // namespace pdc
