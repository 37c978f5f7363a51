#include "compiler/simulator/PlanSimulation.h"

#include "compiler/cost/ClosedForm.h"
#include "compiler/plan/Cut.h"
#include "compiler/schedule/Rhythm.h"
#include "compiler/schedule/Schedules.h"
#include "compiler/simulator/LeastSeconds.h"
#include "compiler/simulator/PlayedRows.h"
#include "compiler/simulator/Simulator.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace pdc {

namespace {

/// What ends a minibatch on every rank: losses are summed over the control plane. Of threads of one
/// process.
constexpr double kSumSeconds = 3e-5;

double sumSeconds(const Topology &topology) {
  return topology.sumSeconds > 0 ? topology.sumSeconds : kSumSeconds;
}

/// Makes the simulator's program of a plan and its results the plan's again.
class PlanPlayer {
public:
  PlanPlayer(const Plan &plan, PlayedRows played) : PlanPlayer(plan, std::move(played), nullptr) {}
  /// Each run takes the seconds that it was measured to take, whoever else computed beside it.
  PlanPlayer(const Plan &plan, PlayedRows played, const TaskTimes &measured)
      : PlanPlayer(plan, std::move(played), &measured) {
    topology.cores = 0;
  }
  PlanSimulation play();
  double seconds(double limit) const;

private:
  /// Stage (-1: all ranks), round, bucket.
  using SumKey = std::tuple<int, int64_t, int>;
  /// The operations of a row, from one to another.
  struct Span {
    size_t first = 0, end = 0;
  };
  /// A run with what its rank spends on taking messages in front of it and on handing them over
  /// behind it.
  struct PlayedRun {
    SimulatedOperation operation;
    double takeSeconds = 0, handOverSeconds = 0;
  };

  PlanPlayer(const Plan &plan, PlayedRows played, const TaskTimes *measured);
  void addMessages();
  void addRank(int rank);
  PlayedRun playedRun(int rank, const Step &step) const;
  double secondsOf(int rank, const Task &task) const;
  int64_t messageOf(const Edge &edge, int64_t microbatch) const {
    return edge.id * microbatches + microbatch;
  }
  std::vector<const Step *> sumsWithinRuns(int rank) const;
  Span addRun(int rank, const Step &step, const Step *sum);
  void addSum(int rank, const Step &step, bool overlaps);
  std::vector<int> sumsOf(const Step &step);
  int sumOf(SumKey key, const std::vector<int> &members, double bytes, double handlingSeconds = 0);
  void recordRank(int rank, const Simulation &played, PlanSimulation &result) const;
  void recordMessages(const Simulation &played, PlanSimulation &result) const;

  const Plan &plan;
  Topology topology;
  std::vector<std::map<Task, double>> measuredSeconds; ///< by rank; empty: the plan's
  std::vector<std::vector<Step>> rows;                 ///< by rank: runs and sums
  int64_t microbatches = 0;
  std::vector<std::vector<const Edge *>> edgesFrom, edgesTo; ///< by stage
  std::vector<double> takeSeconds, handOverSeconds;          ///< of a message, by edge
  std::vector<double> sumHandling;                           ///< of a sum over replicas, by stage
  std::vector<int> numberOfMessage; ///< by edge and microbatch: the transfer, -1 inside a rank
  std::map<SumKey, int> sums;
  std::vector<std::vector<Span>> operations; ///< by rank and row
  SimulatedProgram program;
};

PlanPlayer::PlanPlayer(const Plan &plan, PlayedRows played, const TaskTimes *measured)
    : plan(plan), topology(plan.topology), rows(std::move(played.ranks)),
      microbatches(played.microbatches), edgesFrom(plan.stages.size()),
      edgesTo(plan.stages.size()) {
  if (measured)
    for (const std::vector<TaskTime> &rank : *measured) {
      std::map<Task, double> &seconds = measuredSeconds.emplace_back();
      for (const TaskTime &time : rank)
        seconds[time.task] = time.seconds();
    }
  program.threads = plan.threads;
  for (const Edge &edge : plan.edges) {
    edgesFrom[edge.fromStage].push_back(&edge);
    edgesTo[edge.toStage].push_back(&edge);
    const Link link = linkOf(plan, edge);
    takeSeconds.push_back(link.takeSeconds(static_cast<double>(edge.bytes)));
    handOverSeconds.push_back(link.handOverSeconds(static_cast<double>(edge.bytes)));
  }
  for (const PlanStage &stage : plan.stages)
    sumHandling.push_back(sumHandlingSeconds(plan.topology, stage));
  addMessages();
  program.ranks.resize(rows.size());
  operations.resize(rows.size());
  for (size_t rank = 0; rank < rows.size(); ++rank)
    addRank(static_cast<int>(rank));
}

void PlanPlayer::addMessages() {
  numberOfMessage.assign(plan.edges.size() * static_cast<size_t>(microbatches), -1);
  for (const Edge &edge : plan.edges)
    for (int64_t microbatch = 0; microbatch < microbatches; ++microbatch) {
      int from = plan.schedule.rankOf(edge.fromStage, microbatch);
      int to = plan.schedule.rankOf(edge.toStage, microbatch);
      if (from == to)
        continue;
      numberOfMessage[messageOf(edge, microbatch)] = static_cast<int>(program.transfers.size());
      auto bytes = static_cast<double>(edge.bytes);
      program.transfers.push_back({from, to, {}, bytes, edge.bytes > kEagerBytes});
    }
}

int PlanPlayer::sumOf(SumKey key, const std::vector<int> &members, double bytes,
                      double handlingSeconds) {
  auto [found, isNew] = sums.try_emplace(key, static_cast<int>(program.transfers.size()));
  if (isNew)
    program.transfers.push_back({-1, -1, members, bytes, false, handlingSeconds});
  return found->second;
}

double PlanPlayer::secondsOf(int rank, const Task &task) const {
  return measuredSeconds.empty() ? runSeconds(plan.stages[task.stage]).of(task.phase)
                                 : measuredSeconds[rank].at(task);
}

PlanPlayer::PlayedRun PlanPlayer::playedRun(int rank, const Step &step) const {
  PlayedRun run;
  const Task &task = step.task;
  const PlanStage &stage = plan.stages[task.stage];
  run.operation.seconds = secondsOf(rank, task);
  if (measuredSeconds.empty())
    run.operation.slowdown = task.phase == Phase::update ? stage.updateSlowdown : stage.slowdown;
  for (const Edge *edge : edgesTo[task.stage])
    if (consumes(task, *edge))
      if (int message = numberOfMessage[messageOf(*edge, task.microbatch)]; message >= 0) {
        run.operation.needs.push_back(message);
        // Receives stand in the row in front of the first task that reads them.
        if (program.transfers[message].posted)
          run.operation.posts.push_back(message);
        run.takeSeconds += takeSeconds[edge->id];
      }
  for (const Edge *edge : edgesFrom[task.stage])
    if (produces(task, *edge))
      if (int message = numberOfMessage[messageOf(*edge, task.microbatch)]; message >= 0) {
        run.operation.sends.push_back(message);
        run.handOverSeconds += handOverSeconds[edge->id];
      }
  return run;
}

/// A sum over replicas goes bucket by bucket, as the runtime's does.
std::vector<int> PlanPlayer::sumsOf(const Step &step) {
  const PlanStage &stage = plan.stages[step.task.stage];
  int buckets = countBuckets(plan.device, stage.gradientBytes);
  std::vector<int> numbers;
  for (int bucket = 0; bucket < buckets; ++bucket)
    numbers.push_back(sumOf({stage.id, step.task.microbatch, bucket}, stage.ranks,
                            static_cast<double>(stage.gradientBytes) / buckets,
                            sumHandling[stage.id] / buckets));
  return numbers;
}

/// By row: the sum over replicas that begins within it. Between GPUs none does that messages of its
/// rank come before: they would wait for it (Executor::maySumEarly).
std::vector<const Step *> PlanPlayer::sumsWithinRuns(int rank) const {
  std::vector<const Step *> found = findSumsBehind(rows[rank]);
  auto comesBehindMessages = [&](const Step *first, const Step *sum) {
    for (const Step *step = first; step != sum; ++step)
      if (step->kind == StepKind::run) {
        const SimulatedOperation run = playedRun(rank, *step).operation;
        if (!run.sends.empty() || (step != first && !run.needs.empty()))
          return true;
      }
    return false;
  };
  for (size_t i = 0; plan.device == "cuda" && i < found.size(); ++i)
    found[i] = found[i] && !comesBehindMessages(&rows[rank][i], found[i]) ? found[i] : nullptr;
  return found;
}

/// Where a sum over replicas follows, the backward pass makes the gradients of one bucket after the
/// other and joins each when it is made. What the rank spends on moving a bucket slows the next
/// part; measured seconds have that in them.
PlanPlayer::Span PlanPlayer::addRun(int rank, const Step &step, const Step *sum) {
  std::vector<SimulatedOperation> &all = program.ranks[rank];
  auto [whole, takeSeconds, handOverSeconds] = playedRun(rank, step);
  std::vector<int> buckets = sum ? sumsOf(*sum) : std::vector<int>{-1};
  auto count = static_cast<double>(buckets.size());
  if (takeSeconds > 0)
    all.push_back({takeSeconds,
                   std::exchange(whole.posts, {}),
                   std::exchange(whole.needs, {}),
                   {},
                   whole.slowdown});
  Span span{all.size()};
  for (size_t i = 0; i < buckets.size(); ++i) {
    SimulatedOperation &part = all.emplace_back();
    part.seconds = whole.seconds / count;
    part.slowdown = whole.slowdown;
    if (i > 0 && measuredSeconds.empty())
      part.seconds += sumHandling[step.task.stage] / count;
    if (i == 0)
      part.posts = whole.posts, part.needs = whole.needs;
    else
      part.posts = {buckets[i - 1]};
  }
  span.end = all.size();
  if (handOverSeconds > 0)
    all.push_back({handOverSeconds, {}, {}, {}, whole.slowdown});
  all.back().sends = whole.sends;
  return span;
}

/// All but the last bucket may have been joined before.
void PlanPlayer::addSum(int rank, const Step &step, bool overlaps) {
  std::vector<int> needs = sumsOf(step), posts = needs;
  if (overlaps)
    posts = {needs.back()};
  program.ranks[rank].push_back({0, posts, needs, {}});
}

void PlanPlayer::addRank(int rank) {
  std::vector<int> all(rows.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<const Step *> sumBehind = sumsWithinRuns(rank);
  int64_t round = 0;
  for (size_t i = 0; i < rows[rank].size(); ++i) {
    const Step &step = rows[rank][i];
    const size_t first = program.ranks[rank].size();
    if (step.kind == StepKind::run) {
      operations[rank].push_back(addRun(rank, step, sumBehind[i]));
      continue;
    }
    if (step.kind == StepKind::reduceGradients) {
      addSum(rank, step, std::ranges::find(sumBehind, &step) != sumBehind.end());
    } else {
      int sum = sumOf({-1, round++, 0}, all, 0);
      program.ranks[rank].push_back({sumSeconds(plan.topology), {sum}, {sum}, {}});
    }
    operations[rank].push_back({first, program.ranks[rank].size()});
  }
}

void PlanPlayer::recordRank(int rank, const Simulation &played, PlanSimulation &result) const {
  for (size_t i = 0; i < rows[rank].size(); ++i) {
    const Step &step = rows[rank][i];
    const std::vector<SimulatedTime> &times = played.operations[rank];
    const SimulatedTime &first = times[operations[rank][i].first];
    double end = times[operations[rank][i].end - 1].end;
    bool isRun = step.kind == StepKind::run;
    if (isRun)
      result.busySeconds[rank] += end - first.start;
    result.events.push_back(
        {rank, step.kind, step.task, -1, isRun ? first.start : first.reached, end});
  }
}

void PlanPlayer::recordMessages(const Simulation &played, PlanSimulation &result) const {
  auto taskAt = [](int stage, Phase end, int64_t microbatch) {
    return Task{stage, end, microbatch};
  };
  for (const Edge &edge : plan.edges)
    for (int64_t microbatch = 0; microbatch < microbatches; ++microbatch) {
      int number = numberOfMessage[messageOf(edge, microbatch)];
      if (number < 0)
        continue;
      const SimulatedTransfer &message = program.transfers[number];
      const SimulatedTime &time = played.transfers[number];
      result.events.push_back({message.from, StepKind::send,
                               taskAt(edge.fromStage, edge.producer, microbatch), edge.id,
                               time.reached, time.end, message.to});
      result.events.push_back({message.to, StepKind::receive,
                               taskAt(edge.toStage, edge.consumer, microbatch), edge.id, time.start,
                               time.end, message.from});
    }
}

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
/// Stages x microbatches up to which a rhythm that is not written is played event by event.
/// Links that are slower than the runs settle late: where these are few, so many are played.
constexpr int64_t kMostRunsOfRhythm = 20'000, kRunsOfRhythm = 4'000;
/// Less than this above the limit may be an error of rounding.
constexpr double kRoundingOfLimit = 1e-9;

double PlanPlayer::seconds(double limit) const {
  if (limit < kUnlimited)
    if (double least = leastSeconds(program, topology); least > limit * (1 + kRoundingOfLimit))
      return least;
  return simulate(program, topology).seconds;
}

PlanSimulation PlanPlayer::play() {
  Simulation played = simulate(program, topology);
  PlanSimulation result;
  result.seconds = played.seconds;
  result.busySeconds.resize(rows.size());
  for (size_t rank = 0; rank < rows.size(); ++rank)
    recordRank(static_cast<int>(rank), played, result);
  recordMessages(played, result);
  std::stable_sort(result.events.begin(), result.events.end(), [](const Event &a, const Event &b) {
    return std::pair(a.start, a.rank) < std::pair(b.start, b.rank);
  });
  return result;
}

} // namespace

PlanSimulation simulate(const Plan &plan, int64_t iterations) {
  return simulate(plan, rowsToPlay(plan, iterations));
}

PlanSimulation simulate(const Plan &plan, const PlayedRows &rows) {
  return PlanPlayer(plan, rows).play();
}

PlanSimulation simulate(const Plan &plan, const PlayedRows &rows, const TaskTimes &measured) {
  return PlanPlayer(plan, rows, measured).play();
}

int64_t iterationsToShow(const Plan &plan) {
  auto stages = static_cast<int64_t>(plan.stages.size());
  return plan.schedule.asynchronous ? stages + 4 * plan.mostReplicas() : 2;
}

/// Microbatches until the rhythm of a plan has reached every rank, in whole rounds of all stages'
/// replicas, and of ranks with several stages.
static int64_t microbatchesToSettle(const Plan &plan, int64_t period) {
  const int stages = plan.schedule.stages();
  const bool shared = sharesRanks({stages, plan.schedule.ranksOfStage});
  const int64_t whole = shared ? stages * plan.schedule.replicas(0) : std::max<int64_t>(1, period);
  const int64_t round = roundOfReplicas(plan.schedule.ranksOfStage, whole);
  return (enoughMicrobatches(plan.schedule.ranksOfStage) + round - 1) / round * round;
}

/// The difference of two runs of equal warm-up and drain is steady state alone.
static double secondsInSteadyState(const Plan &plan) {
  auto play = [&](int64_t iterations) {
    return PlanPlayer(plan, rowsToPlay(plan, iterations)).seconds(kUnlimited);
  };
  const int64_t settle = microbatchesToSettle(plan, plan.schedule.period);
  const double few = play(settle), many = play(2 * settle);
  return (many - few) / static_cast<double>(settle) *
         static_cast<double>(plan.schedule.microbatches);
}

/// What a minibatch of more microbatches takes than one of fewer, where both fill the pipeline and
/// empty it, is the rhythm's: the plan's goes on in it. Fewer than playing both takes are played as
/// they are.
static double secondsInRhythm(const Plan &plan, int64_t settle) {
  auto play = [&](int64_t microbatches) {
    Plan shorter = plan;
    shorter.schedule.microbatches = microbatches;
    if (!plan.schedule.asynchronous)
      return PlanPlayer(shorter, rowsToPlay(shorter, 1)).seconds(kUnlimited);
    shorter.schedule.period = microbatches;
    return secondsInSteadyState(shorter);
  };
  const int64_t all = plan.schedule.microbatches;
  if (all <= 4 * settle)
    return play(all);
  const int64_t first = settle + all % settle;
  const double few = play(first), many = play(first + settle);
  return few + (many - few) * static_cast<double>(all - first) / static_cast<double>(settle);
}

/// Without rows.
static double secondsUnwritten(const Plan &plan) {
  const int64_t settle = microbatchesToSettle(plan, 1);
  const int64_t runs = static_cast<int64_t>(plan.stages.size()) * settle;
  const int64_t longer = std::max<int64_t>(1, kRunsOfRhythm / runs);
  if (runs <= kMostRunsOfRhythm)
    return plan.schedule.sumsMicrobatches() ? secondsInRhythm(plan, longer * settle)
                                            : secondsInSteadyState(plan);
  PlayCosts costs = playCosts(plan);
  costs.allReduce = sumSeconds(plan.topology);
  return playUnwritten(plan.schedule, plan.edges, costs);
}

double simulatedSecondsPerMinibatch(const Plan &plan, double limit) {
  if (plan.schedule.ranks.empty() && !isClosedForm(plan.costModel))
    return secondsUnwritten(plan);
  if (!plan.schedule.asynchronous)
    return PlanPlayer(plan, rowsToPlay(plan, 1)).seconds(limit);
  return secondsInSteadyState(plan);
}

} // namespace pdc
