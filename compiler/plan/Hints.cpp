#include "compiler/plan/Hints.h"

#include "compiler/Error.h"
#include "compiler/cost/ClosedForm.h"
#include "compiler/plan/Bounds.h"
#include "compiler/plan/MakePlan.h"
#include "compiler/plan/Planner.h"
#include "compiler/plan/Ways.h"
#include "compiler/schedule/RowSearch.h"
#include "compiler/schedule/Schedules.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pdc {

namespace {

/// What a change must gain to be worth a line, and how many lines there are.
constexpr double kLeastGainOfHint = 0.02;
constexpr size_t kMostHints = 5;
/// Units x workers, and runs, up to which plans are made again.
constexpr int64_t kMostHintPlaces = 20'000, kMostHintRuns = 20'000;

std::string percent(double share) {
  return std::to_string(static_cast<int>(std::lround(100 * share))) + "%";
}

double shareOf(const PlanStage &stage) {
  return (stage.forwardSeconds + stage.backwardSeconds) / stage.replicas;
}

const PlanStage &heaviestStage(const Plan &plan) {
  return *std::ranges::max_element(plan.stages, {}, shareOf);
}

/// "; /classifier/Gemm is 80% of it"
std::string heaviestUnit(const PlanStage &stage, const PlanGraph &graph) {
  const PlanUnit *heaviest = nullptr;
  double all = 0;
  for (const PlanUnit &unit : graph.units) {
    if (std::ranges::find(stage.units, unit.name) == stage.units.end())
      continue;
    all += microbatchSeconds(unit);
    if (!heaviest || microbatchSeconds(unit) > microbatchSeconds(*heaviest))
      heaviest = &unit;
  }
  if (!heaviest || all <= 0)
    return "";
  const std::string &name = heaviest->nodes.empty() ? heaviest->name : heaviest->nodes.front();
  return "; " + name + " is " + percent(microbatchSeconds(*heaviest) / all) + " of it";
}

std::string waitsForTransfers(const Plan &plan, double share) {
  if (plan.edges.empty())
    return "summing gradients over the replicas takes " + percent(share) + " of the time";
  const Edge &largest = *std::ranges::max_element(plan.edges, {}, &Edge::bytes);
  return "waiting for transfers takes " + percent(share) + " of the time; the largest is " +
         largest.tensor + ", from stage " + std::to_string(largest.fromStage) + " to " +
         std::to_string(largest.toStage);
}

/// The greatest of what the bounds leave to imbalance, bubble and transfers.
std::string findBottleneck(const Plan &plan, const PlanGraph &graph) {
  const PlanBounds &bounds = plan.bounds;
  double seconds = plan.secondsPerMinibatch;
  double imbalance = (bounds.balance - bounds.work) / seconds;
  double bubble = (bounds.bubble - bounds.balance) / seconds;
  double transfers = (seconds - bounds.bubble) / seconds;
  if (std::max({imbalance, bubble, transfers}) < kLeastGainOfHint)
    return "none: the devices compute all the time";
  if (transfers >= std::max(imbalance, bubble))
    return waitsForTransfers(plan, transfers);
  if (bubble > imbalance)
    return "filling and emptying the pipeline takes " + percent(bubble) + " of the time";
  const PlanStage &heaviest = heaviestStage(plan);
  double mean = 0, ranks = 0;
  for (const PlanStage &stage : plan.stages) {
    mean += shareOf(stage) * stage.replicas;
    ranks += stage.replicas;
  }
  return "stage " + std::to_string(heaviest.id) + " is " +
         percent(shareOf(heaviest) * ranks / mean - 1) + " over the mean" +
         heaviestUnit(heaviest, graph);
}

struct Trial {
  std::string change;
  PlanRequest request;
};

/// Changes of a request that a reader could make.
class Trials {
public:
  Trials(const Plan &plan, const PlanRequest &asked)
      : plan(plan), asked(asked), request(chosenAgain()) {
    addSchedules();
    if (request.assignment.empty() && !isClosedForm(plan.costModel)) {
      addReplicas();
      addWorker();
      addFewerWorkers();
    }
    addMicrobatches();
    addFasterLinks();
  }
  std::vector<Trial> trials;

private:
  /// The request with what was chosen for it, so that a trial changes one thing.
  PlanRequest chosenAgain() const {
    PlanRequest again = asked;
    if (!opensWays(asked) || isClosedForm(plan.costModel))
      return again;
    again.schedule = nameOfSeed(plan.scheduleName);
    again.openReplicas = false;
    std::vector<int> replicas = replicasOfPlaces();
    if (!again.chunks && replicas.size() < plan.stages.size())
      again.chunks = static_cast<int>(plan.stages.size() / replicas.size());
    if (again.replicas.empty() &&
        std::ranges::any_of(replicas, [](int count) { return count > 1; })) {
      again.microbatches = plan.microbatches;
      again.stages = again.chunks > 1 ? 0 : static_cast<int>(replicas.size());
      again.replicas = std::move(replicas);
    }
    return again;
  }

  /// Stages of a rank are replicated together; of the heaviest stage's rank, so many more.
  std::vector<int> replicasOfPlaces(int more = 0) const {
    std::vector<int> replicas;
    const std::vector<int> &heaviest = heaviestStage(plan).ranks;
    auto places = plan.stages.begin();
    for (auto stage = places; stage != plan.stages.end(); ++stage)
      if (std::find_if(places, stage, [&](auto &other) { return other.ranks == stage->ranks; }) ==
          stage)
        replicas.push_back(stage->replicas + (stage->ranks == heaviest ? more : 0));
    return replicas;
  }

  /// With its stages by hand, `auto` gives each rank one.
  bool hasChosenChunks(const PlanRequest &changed) const {
    return asked.schedule == "auto" && !asked.chunks && changed.chunks;
  }

  bool isFlat() const { return !request.topology || request.topology->levels.size() == 1; }

  PlanRequest withOneMoreWorker() const {
    PlanRequest more = request;
    ++more.workers;
    if (more.topology)
      ++more.topology->levels[0].workers;
    if (more.topology && !more.topology->memoryOfWorker.empty())
      more.topology->memoryOfWorker.push_back(more.topology->memoryOfWorker.back());
    return more;
  }

  /// As many microbatches in all, if the replicas of the first stage can share them.
  bool replicate(PlanRequest &changed, std::vector<int> replicas) const {
    if (plan.schedule.microbatches % replicas[0])
      return false;
    changed.microbatches =
        plan.schedule.sumsMicrobatches() ? plan.schedule.microbatches / replicas[0] : 1;
    changed.stages = static_cast<int>(replicas.size());
    changed.replicas = std::move(replicas);
    return true;
  }

  void addSchedules() {
    // `auto` has tried them.
    if (asked.schedule == "auto")
      return;
    for (const ScheduleKind &kind : schedules()) {
      if (plan.schedule.asynchronous || plan.scheduleName == kind.name || !kind.synchronous ||
          kind.placement != StagePlacement::straight)
        continue;
      PlanRequest changed = request;
      changed.schedule = kind.name;
      changed.chunks = asked.chunks;
      trials.push_back({"--schedule " + changed.schedule, changed});
    }
  }

  void addReplicas() {
    int workers = request.workers;
    for (int replicas = 2; replicas <= workers; ++replicas) {
      std::vector<int> each(workers / replicas, replicas);
      PlanRequest changed = request;
      if (hasChosenChunks(changed)) {
        changed.schedule = schedules().front().name;
        changed.chunks = 0;
      }
      if (workers % replicas == 0 && replicate(changed, each))
        trials.push_back({"--stages " + textOf(each), changed});
    }
  }

  /// Not where it would have to share a core: what such ranks take from one another is not known
  /// well enough to advise it.
  void addWorker() {
    std::string gpus = "--gpus " + std::to_string(request.workers + 1);
    PlanRequest more = withOneMoreWorker();
    if (!isFlat() || planHead(more).topology.sharesCores(plan.threads))
      return;
    if (request.replicas.empty() && !request.stages)
      trials.push_back({gpus, more});
    else if (plan.stages.size() == 1)
      return;
    if (hasChosenChunks(more))
      return;
    std::vector<int> replicas = replicasOfPlaces(1);
    if (replicate(more, replicas))
      trials.push_back({gpus + " --stages " + textOf(replicas), more});
  }

  /// Ranks that share cores wait for each other's turns.
  void addFewerWorkers() {
    const Topology &topology = plan.topology;
    auto atOnce = static_cast<int>(topology.workersAtOnce(plan.threads));
    bool alike = topology.memoryOfWorker.empty() && topology.links.empty();
    if (!topology.sharesCores(plan.threads) || atOnce < 1 || !isFlat() || !alike ||
        !request.replicas.empty() || request.stages)
      return;
    PlanRequest fewer = asked;
    fewer.workers = atOnce;
    if (fewer.topology)
      fewer.topology->levels[0].workers = atOnce;
    trials.push_back({"--gpus " + std::to_string(atOnce) + ", a core for each", fewer});
  }

  void addMicrobatches() {
    if (!plan.schedule.sumsMicrobatches())
      return;
    PlanRequest changed = request;
    changed.microbatches *= 2;
    trials.push_back({"twice as many microbatches per update", changed});
  }

  void addFasterLinks() {
    PlanRequest changed = request;
    changed.topology = plan.topology;
    for (Level &level : changed.topology->levels)
      level.link.bytesPerSecond *= 2;
    for (OwnLink &own : changed.topology->links)
      own.link.bytesPerSecond *= 2;
    trials.push_back({"links of twice the bandwidth", changed});
  }

  const Plan &plan;
  const PlanRequest &asked;
  const PlanRequest request;
};

double secondsPerMicrobatch(const Plan &plan) {
  return plan.secondsPerMinibatch / static_cast<double>(plan.schedule.microbatches);
}

/// How much faster the model trains; 0 where that cannot be planned.
double gainOf(const Plan &plan, const PlanGraph &graph, const PlanRequest &request) {
  try {
    double other = plannedSecondsPerMicrobatch(graph, request);
    return other > 0 ? secondsPerMicrobatch(plan) / other - 1 : 0;
  } catch (const Error &) {
    return 0;
  }
}

} // namespace

PlanHints findHints(const Plan &plan, const PlanGraph &graph, const PlanRequest &request) {
  PlanHints hints;
  if (plan.secondsPerMinibatch <= 0)
    return hints;
  hints.bottleneck = findBottleneck(plan, graph);
  int64_t places = static_cast<int64_t>(graph.units.size()) * plan.topology.workers();
  int64_t runs = static_cast<int64_t>(plan.stages.size()) * plan.schedule.microbatches;
  if (places > kMostHintPlaces || runs > kMostHintRuns)
    return hints;
  for (const Trial &trial : Trials(plan, request).trials)
    if (double gain = gainOf(plan, graph, trial.request); gain >= kLeastGainOfHint)
      hints.helps.push_back({trial.change, gain});
  std::ranges::stable_sort(hints.helps, std::greater<>(), &PlanHelp::gain);
  hints.helps.resize(std::min(hints.helps.size(), kMostHints));
  return hints;
}

} // namespace pdc
