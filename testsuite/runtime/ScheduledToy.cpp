#include "testsuite/runtime/ScheduledToy.h"

#include "compiler/schedule/Rows.h"
#include "testsuite/runtime/ToyWords.h"
#include "testsuite/schedule/ToyRule.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace toy {

using namespace pdc::runtime;
using Weights = std::vector<std::vector<uint32_t>>;

namespace {

constexpr int64_t kLine = 64;

/// A stage in the fixed region: gradients of both halves of the backward pass, its weight where it
/// has one version.
constexpr int64_t kFirstGradient = 0, kSecondGradient = kLine, kWeight = 2 * kLine,
                  kFixedBytes = 3 * kLine;
/// A stage in its slots: what its passes keep, its input, what comes in and goes out by edge.
constexpr int64_t kStash = 0, kHalf = kLine, kInput = 2 * kLine;
int64_t inboxAt(const pdc::Edge &edge) { return (3 + 2 * edge.id) * kLine; }
int64_t outboxAt(const pdc::Edge &edge) { return inboxAt(edge) + kLine; }

struct Case {
  const pdc::Schedule *schedule;
  const std::vector<pdc::Edge> *edges;
  std::map<int, int64_t> fixed; ///< by stage of the rank: its offset
};
thread_local const Case *current; // createTasks is a plain function

class StageTasks : public Tasks {
public:
  explicit StageTasks(int stage)
      : stage(stage), edges(*current->edges), fixed(current->fixed.at(stage)),
        weightAt(current->schedule->asynchronous ? 0 : fixed + kWeight) {}

  void evaluate(const Run &) override {}
  void forward(const Run &run) override {
    uint32_t word = forwardOf(stage, *run.ofMicrobatch<uint32_t>(weightAt));
    if (stage == 0)
      word = mix(word, *run.slot<uint32_t>(kInput));
    *run.slot<uint32_t>(kStash) = pass(run, pdc::Phase::forward, word);
  }
  void backward(const Run &run) override {
    backwardInput(run);
    run.gradientsMade(1);
    backwardWeight(run);
  }
  void backwardInput(const Run &run) override {
    uint32_t weight = *run.ofMicrobatch<uint32_t>(weightAt);
    uint32_t word = backwardOf(*run.slot<uint32_t>(kStash), weight);
    word = pass(run, pdc::Phase::backward, word);
    *run.slot<uint32_t>(kHalf) = word;
    add(run, kFirstGradient, word);
  }
  void backwardWeight(const Run &run) override {
    add(run, kSecondGradient,
        weightGradientOf(*run.slot<uint32_t>(kHalf), *run.slot<uint32_t>(kStash)));
    run.gradientsMade(2);
  }
  void update(const Run &run) override {
    auto sum = [&](int64_t at) { return uint32_t(*run.fixed(fixed + at)); };
    *run.next<uint32_t>(weightAt) =
        nextWeight(*run.latest<uint32_t>(weightAt), sum(kFirstGradient), sum(kSecondGradient));
  }

private:
  /// Mixes in what comes in and gives on what goes out.
  uint32_t pass(const Run &run, pdc::Phase phase, uint32_t word) const {
    for (const pdc::Edge &edge : edges)
      if (edge.toStage == stage && edge.consumer == phase)
        word = mix(word, *run.slot<uint32_t>(inboxAt(edge)));
    for (const pdc::Edge &edge : edges)
      if (edge.fromStage == stage && edge.producer == phase)
        *run.slot<uint32_t>(outboxAt(edge)) = mix(word, uint32_t(edge.id));
    return word;
  }
  void add(const Run &run, int64_t at, uint32_t word) const {
    float *sum = run.fixed(fixed + at);
    *sum = run.first() ? float(word) : *sum + float(word);
  }

  const int stage;
  const std::vector<pdc::Edge> &edges;
  const int64_t fixed, weightAt;
};

Tasks *createTasks(int stage, const Device &) { return new StageTasks(stage); }

/// A microbatch is its number in its round.
struct Numbers : Inputs {
  void fill(const Memory &, std::byte *to, int64_t microbatch) override {
    *reinterpret_cast<uint32_t *>(to) = uint32_t(microbatch);
  }
};

Phase phaseOf(pdc::Phase phase) { return Phase(int(phase)); }

} // namespace

ScheduledToy::ScheduledToy(const pdc::Schedule &schedule, const std::vector<pdc::Edge> &edges)
    : schedule(schedule), edges(edges), programs(schedule.ranks.size()) {
  for (int rank = 0; rank < int(programs.size()); ++rank)
    fill(rank);
}

void ScheduledToy::addFixed(Tables &t, int stage) {
  int64_t at = int64_t(t.stages.size()) * kFixedBytes;
  auto add = [&](const char *name, Role role, Place place) {
    t.names.push_back("w" + std::to_string(stage) + name);
    Memory memory{};
    memory.name = t.names.back().c_str();
    memory.role = role;
    memory.layout = "";
    memory.place = place;
    memory.bytes = 4;
    t.memories.push_back(memory);
    return int(t.memories.size()) - 1;
  };
  t.gradients.push_back({add("/gradient", Role::gradient, {0, at + kFirstGradient}),
                         add("/gradient.1", Role::gradient, {0, at + kSecondGradient})});
  if (stage == 0)
    add("/input", Role::input, {int(t.regions.size()), kInput});
}

void ScheduledToy::addStage(Tables &t, int stage) {
  addFixed(t, stage);
  auto region = [&](const char *name, int64_t stride, int copies) {
    int64_t at = t.regions.back().offset + t.regions.back().stride * t.regions.back().copies;
    t.regions.push_back({name, at, stride, copies});
    return int(t.regions.size()) - 1;
  };
  StageInfo info{};
  info.id = stage;
  info.ranks = schedule.ranksOfStage[stage];
  info.slotRegion = region("slots", int64_t(3 + 2 * edges.size()) * kLine, schedule.slots[stage]);
  info.evaluationRegion = -1;
  info.slotTable = schedule.slotTable[stage];
  info.versionRegion =
      schedule.asynchronous ? region("versions", kLine, schedule.versions[stage]) : -1;
  if (info.ranks.size() > 1)
    info.gradients = t.gradients.back();
  t.stages.push_back(info);
  addEdges(t, stage);
}

void ScheduledToy::addEdges(Tables &t, int stage) {
  int slots = t.stages.back().slotRegion;
  for (const pdc::Edge &edge : edges)
    for (bool sends : {false, true}) {
      int other = sends ? edge.toStage : edge.fromStage;
      if ((sends ? edge.fromStage : edge.toStage) != stage || schedule.shareRanks(stage, other))
        continue;
      t.transferOfEdge[edge.id][sends] = int(t.transfers.size());
      t.transfers.push_back({edge.tensor.c_str(),
                             ElementType::i32,
                             schedule.ranksOfStage[other],
                             edge.id,
                             stage,
                             phaseOf(sends ? edge.producer : edge.consumer),
                             {slots, sends ? outboxAt(edge) : inboxAt(edge)},
                             4});
    }
}

/// Between stages of one rank; their slots are known once all have been added.
static std::vector<Move> movesOf(const pdc::Schedule &schedule, const std::vector<pdc::Edge> &edges,
                                 std::span<const StageInfo> stages) {
  auto slotsOf = [&](int stage) {
    return std::ranges::find(stages, stage, &StageInfo::id)->slotRegion;
  };
  std::vector<bool> split = pdc::findSplitStages(schedule);
  std::vector<Move> moves;
  for (const pdc::Edge &edge : edges) {
    bool isHere = std::ranges::count(stages, edge.fromStage, &StageInfo::id) > 0;
    if (!isHere || !schedule.shareRanks(edge.fromStage, edge.toStage))
      continue;
    bool half = edge.producer == pdc::Phase::backward && split[edge.fromStage];
    moves.push_back({edge.tensor.c_str(),
                     edge.fromStage,
                     half ? Phase::backwardInput : phaseOf(edge.producer),
                     {slotsOf(edge.fromStage), outboxAt(edge)},
                     edge.toStage,
                     {slotsOf(edge.toStage), inboxAt(edge)},
                     4});
  }
  return moves;
}

std::vector<Step> ScheduledToy::stepsOf(const std::vector<pdc::Step> &rows, const Tables &t) const {
  std::vector<Step> steps;
  for (const pdc::Step &row : rows) {
    bool sends = row.kind == pdc::StepKind::send;
    steps.push_back({StepKind(int(row.kind)), phaseOf(row.task.phase), row.task.stage,
                     row.task.microbatch, row.edge < 0 ? -1 : t.transferOfEdge[row.edge][sends]});
  }
  return steps;
}

void ScheduledToy::fill(int rank) {
  Tables &t = tables.emplace_back();
  t.transferOfEdge.assign(edges.size(), {-1, -1});
  std::vector<int> stages;
  for (int stage = 0; stage < schedule.stages(); ++stage)
    if (std::ranges::count(schedule.ranksOfStage[stage], rank))
      stages.push_back(stage);
  t.regions = {{"fixed", 0, int64_t(stages.size()) * kFixedBytes, 1}};
  t.stages.reserve(stages.size());
  for (int stage : stages)
    addStage(t, stage);
  t.moves = movesOf(schedule, edges, t.stages);
  const pdc::RankRows &rows = schedule.ranks[rank];
  (schedule.asynchronous ? t.warmUp : t.step) = stepsOf(rows.warmUp, t);
  t.repeat = stepsOf(rows.repeat, t);
  t.drain = stepsOf(rows.drain, t);
  Program &p = programs[rank];
  p.contractVersion = kContractVersion;
  p.model = p.planHash = "toy";
  p.rank = rank;
  p.ranks = int(programs.size());
  p.schedule = schedule.name.c_str();
  p.asynchronous = schedule.asynchronous;
  p.threads = 1;
  p.microbatches = schedule.sumsMicrobatches() ? schedule.microbatches : 1;
  if (schedule.weightRule != pdc::WeightRule::stashed)
    p.versionLag = int(pdc::toy::lags(schedule)[0]);
  p.microbatchSize = 1;
  p.arenaBytes = t.regions.back().offset + t.regions.back().stride * t.regions.back().copies;
  p.regions = t.regions;
  p.memories = t.memories;
  p.transfers = t.transfers;
  p.moves = t.moves;
  p.training = {t.step, t.warmUp, t.repeat, t.drain, schedule.period};
  p.stages = t.stages;
  p.createTasks = createTasks;
}

ScheduledToy::Ended ScheduledToy::run(const std::vector<int64_t> &rounds,
                                      uint64_t delaySeed) const {
  int ranks = int(programs.size());
  LocalNetwork network(ranks);
  LocalControlPlane plane(ranks);
  Ended ended{Weights(schedule.stages()), ""};
  for (int stage = 0; stage < schedule.stages(); ++stage)
    ended.weights[stage].resize(schedule.ranksOfStage[stage].size());
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        auto endpoint = network.endpoint(rank);
        runRank(rank, *endpoint, plane.of(rank), rounds, delaySeed, ended.weights);
      } catch (const std::exception &failure) {
        plane.of(rank).fail(failure.what());
        std::lock_guard lock(mutex);
        ended.error = failure.what();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  return ended.error.empty() ? ended : Ended{{}, ended.error};
}

void ScheduledToy::runRank(int rank, Transport &transport, Control &control,
                           const std::vector<int64_t> &rounds, uint64_t delaySeed,
                           Weights &weights) const {
  const Program &program = programs[rank];
  Case own{&schedule, &edges, {}};
  for (const StageInfo &info : program.stages)
    own.fixed[info.id] = int64_t(own.fixed.size()) * kFixedBytes;
  current = &own;
  Arena arena(program);
  auto weightOf = [&](const StageInfo &info) -> Memory {
    Memory memory{};
    memory.versioned = info.versionRegion >= 0;
    memory.place =
        memory.versioned ? Place{info.versionRegion, 0} : Place{0, own.fixed.at(info.id) + kWeight};
    return memory;
  };
  for (const StageInfo &info : program.stages)
    *reinterpret_cast<uint32_t *>(arena.at(weightOf(info).place)) = initialWeight(info.id);
  Numbers inputs;
  ExecutorOptions options;
  options.timeout = 60;
  options.rendezvous = delaySeed;
  options.delaySeed = delaySeed;
  // Each gradient is a bucket: the first is summed while the second is made.
  options.bucketElements = 1;
  Executor executor(program, arena, transport, control, inputs, options);
  executor.start();
  LearningRate rate(1, "constant", 1);
  for (int64_t step = 1; int64_t microbatches : rounds)
    if (schedule.asynchronous)
      executor.trainAsynchronous(microbatches, 1, rate, [] {});
    else
      executor.trainSynchronous(microbatches, step++, rate);
  for (const StageInfo &info : program.stages) {
    auto replica = std::ranges::find(info.ranks, rank) - info.ranks.begin();
    std::byte *newest = executor.newest(weightOf(info));
    weights[info.id][size_t(replica)] = *reinterpret_cast<uint32_t *>(newest);
  }
}

} // namespace toy
