#include "testsuite/schedule/ToyPipeline.h"

#include "testsuite/schedule/ToyNetwork.h"
#include "testsuite/schedule/ToyRule.h"

#include <algorithm>
#include <map>
#include <optional>
#include <thread>
#include <tuple>

namespace pdc {

namespace {

using toy::mix;
using toy::Network;
using toy::Word;
using Weights = std::vector<Word>; ///< one per stage, or per rank of each stage

Word initialWeight(size_t stage) { return mix(11, stage); }

/// What the forward and backward kernels start from, before their inputs are mixed in.
Word forwardSeed(int stage, Word weight, int64_t microbatch) {
  return mix(mix(stage, weight), stage == 0 ? microbatch : 0);
}

struct Slot {
  std::vector<Word> inbox, outbox;
  Word stash = 0, half = 0; ///< what the forward pass and the input gradient leave
  size_t version = 0;
};

struct Stage {
  std::vector<Slot> slots;
  std::vector<Word> ring;
  size_t version = 0;
  Word gradient = 0, otherGradient = 0;
};

/// An edge knows the backward pass as a whole; what it sends and reads belongs to the first half.
bool isEnd(Phase end, Phase phase) {
  return end == phase || (end == Phase::backward && phase == Phase::backwardInput);
}

/// What the weight gradient adds to its sum.
Word weightGradient(Word half, Word stash, Word weight) { return mix(mix(half, stash), weight); }

Word nextWeight(Word weight, Word gradient, Word otherGradient, Word total) {
  return mix(mix(mix(weight, gradient), otherGradient), total);
}

/// A thread of its own: obeys the rows, checks nothing. `stages`: those of all ranks, of which it
/// touches its own replica.
class Rank {
public:
  Rank(int rank, const Schedule &schedule, const std::vector<Edge> &edges,
       const std::vector<int64_t> &rounds, std::vector<std::map<int, Stage>> &stages,
       Network &network)
      : rank(rank), schedule(schedule), edges(edges), stages(stages), network(network) {
    flatten(rounds);
  }

  void run();

private:
  void flatten(const std::vector<int64_t> &rounds);
  void append(const std::vector<Step> &part, int64_t shift);
  Slot &slot(int stage, int64_t microbatch);
  size_t versionRead(const Task &task, const Stage &stage) const;
  void compute(const Task &task);
  Word readInputs(const Task &task, Word word);
  void writeOutputs(const Task &task, Word word);
  bool communicate(size_t first, size_t last);
  bool sumOverRanks();
  bool reduce(const Task &update);

  int rank;
  const Schedule &schedule;
  const std::vector<Edge> &edges;
  std::vector<std::map<int, Stage>> &stages; ///< by stage and rank
  Network &network;
  std::vector<Step> rows;
  std::vector<bool> startsPart;
  std::vector<int64_t> starts; ///< first microbatch of each round
  Word metric = 0, total = 0;
  size_t sums = 0;
  std::map<int, size_t> reductions; ///< by stage
};

void Rank::append(const std::vector<Step> &part, int64_t shift) {
  for (size_t i = 0; i < part.size(); ++i) {
    rows.push_back(part[i]);
    rows.back().task.microbatch += shift;
    startsPart.push_back(i == 0);
  }
}

void Rank::flatten(const std::vector<int64_t> &rounds) {
  const RankRows &own = schedule.ranks[rank];
  int64_t start = 0;
  for (int64_t iterations : rounds) {
    starts.push_back(start);
    append(own.warmUp, start);
    for (int64_t i = 0; i < iterations; ++i)
      append(own.repeat, start + i * schedule.period);
    append(own.drain, start + iterations * schedule.period);
    start += toy::microbatchesOf(schedule, iterations);
  }
}

Slot &Rank::slot(int stage, int64_t microbatch) {
  const std::vector<int> &table = schedule.slotTable[stage];
  if (!schedule.asynchronous)
    microbatch %= schedule.microbatches;
  int64_t replicas = schedule.ranksOfStage[stage].size();
  return stages[stage].at(rank).slots[table[microbatch / replicas % table.size()]];
}

Word Rank::readInputs(const Task &task, Word word) {
  for (const Edge &edge : edges) {
    if (edge.toStage != task.stage || !isEnd(edge.consumer, task.phase))
      continue;
    word = mix(word, slot(task.stage, task.microbatch).inbox[edge.id]);
  }
  return word;
}

void Rank::writeOutputs(const Task &task, Word word) {
  for (const Edge &edge : edges) {
    if (edge.fromStage != task.stage || !isEnd(edge.producer, task.phase))
      continue;
    slot(task.stage, task.microbatch).outbox[edge.id] = mix(word, edge.id);
    if (stages[edge.toStage].contains(rank))
      slot(edge.toStage, task.microbatch).inbox[edge.id] = mix(word, edge.id);
  }
}

/// The newest, or where the rule says so the one that a number says.
size_t Rank::versionRead(const Task &task, const Stage &stage) const {
  if (schedule.weightRule == WeightRule::stashed ||
      (schedule.weightRule == WeightRule::atEntry && task.stage == 0))
    return stage.version;
  int64_t start = *(std::ranges::upper_bound(starts, task.microbatch) - 1);
  return toy::dueVersion(schedule, toy::lags(schedule)[task.stage], task.stage, task.microbatch,
                         start);
}

void Rank::compute(const Task &task) {
  Stage &stage = stages[task.stage].at(rank);
  size_t copies = stage.ring.size();
  if (task.phase == Phase::forward) {
    Slot &own = slot(task.stage, task.microbatch);
    own.version = versionRead(task, stage);
    own.stash = readInputs(
        task, forwardSeed(task.stage, stage.ring[own.version % copies], task.microbatch));
    writeOutputs(task, own.stash);
  } else if (task.phase == Phase::backward || task.phase == Phase::backwardInput) {
    Slot &own = slot(task.stage, task.microbatch);
    own.half = readInputs(task, mix(own.stash, stage.ring[own.version % copies]));
    writeOutputs(task, own.half);
    stage.gradient = mix(stage.gradient, own.half);
    metric += own.half;
  } else if (task.phase == Phase::backwardWeight) {
    Slot &own = slot(task.stage, task.microbatch);
    Word word = weightGradient(own.half, own.stash, stage.ring[own.version % copies]);
    stage.otherGradient = mix(stage.otherGradient, word);
  } else {
    Word next =
        nextWeight(stage.ring[stage.version % copies], stage.gradient, stage.otherGradient, total);
    stage.ring[++stage.version % copies] = next;
    stage.gradient = stage.otherGradient = 0;
  }
}

bool Rank::sumOverRanks() {
  std::optional<Word> sum = network.sum(rank, sums++, metric);
  total = sum.value_or(0);
  metric = 0;
  return sum.has_value();
}

/// A rank that is not of the stage spoils its sum and keeps nothing.
bool Rank::reduce(const Task &update) {
  auto own = stages[update.stage].find(rank);
  bool isMember = own != stages[update.stage].end();
  Network::Gradients mine;
  if (isMember)
    mine = {own->second.gradient, own->second.otherGradient};
  auto sum = network.reduce(rank, update.stage, reductions[update.stage]++,
                            schedule.ranksOfStage[update.stage].size(), mine);
  if (sum && isMember)
    std::tie(own->second.gradient, own->second.otherGradient) = *sum;
  return sum.has_value();
}

bool Rank::communicate(size_t first, size_t last) {
  if (rows[first].kind == StepKind::allReduce)
    return sumOverRanks();
  if (rows[first].kind == StepKind::reduceGradients)
    return reduce(rows[first].task);
  std::vector<Network::Post> posts;
  for (size_t i = first; i < last; ++i) {
    const Step &step = rows[i];
    Slot &own = slot(step.task.stage, step.task.microbatch);
    bool send = step.kind == StepKind::send;
    posts.push_back({send, send ? rank : step.peer, send ? step.peer : rank, step.edge,
                     send ? &own.outbox[step.edge] : &own.inbox[step.edge]});
  }
  return network.exchange(rank, posts);
}

void Rank::run() {
  auto isTransfer = [&](size_t i) {
    return rows[i].kind == StepKind::send || rows[i].kind == StepKind::receive;
  };
  for (size_t i = 0, end; i < rows.size(); i = end) {
    end = i + 1;
    while (isTransfer(i) && end < rows.size() && isTransfer(end) && !startsPart[end])
      ++end;
    if (rows[i].kind == StepKind::run)
      compute(rows[i].task);
    else if (!communicate(i, end))
      return;
  }
  network.finish(rank);
}

std::optional<Weights> runPipeline(const Schedule &schedule, const std::vector<Edge> &edges,
                                   const std::vector<int64_t> &rounds, bool byEdge) {
  std::vector<std::map<int, Stage>> stages(schedule.stages());
  for (size_t i = 0; i < stages.size(); ++i)
    for (int rank : schedule.ranksOfStage[i]) {
      Slot empty{std::vector<Word>(edges.size()), std::vector<Word>(edges.size())};
      Stage &stage = stages[i][rank];
      stage.slots.assign(*std::ranges::max_element(schedule.slotTable[i]) + 1, empty);
      stage.ring.assign(schedule.versions[i], 0);
      stage.ring[0] = initialWeight(i);
    }
  int ranks = static_cast<int>(schedule.ranks.size());
  Network network(ranks, byEdge);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { Rank(rank, schedule, edges, rounds, stages, network).run(); });
  for (std::thread &thread : threads)
    thread.join();
  if (network.hangs())
    return std::nullopt;
  Weights weights;
  for (const std::map<int, Stage> &replicas : stages)
    for (const auto &[rank, stage] : replicas)
      weights.push_back(stage.ring[stage.version % stage.ring.size()]);
  return weights;
}

/// One microbatch through all stages with the given weights; what each stage keeps of its forward
/// and what its backward pass makes.
struct Passed {
  Weights stash, gradients;
};

Passed passThrough(const Weights &weights, const std::vector<Edge> &edges, int64_t microbatch) {
  int stages = static_cast<int>(weights.size());
  std::vector<Word> value(edges.size()), stash(stages), gradients(stages);
  auto runKernel = [&](int stage, Phase phase, Word word) {
    for (const Edge &edge : edges)
      if (edge.toStage == stage && edge.consumer == phase)
        word = mix(word, value[edge.id]);
    for (const Edge &edge : edges)
      if (edge.fromStage == stage && edge.producer == phase)
        value[edge.id] = mix(word, edge.id);
    return word;
  };
  for (int stage = 0; stage < stages; ++stage)
    stash[stage] = runKernel(stage, Phase::forward, forwardSeed(stage, weights[stage], microbatch));
  for (int stage = stages - 1; stage >= 0; --stage)
    gradients[stage] = runKernel(stage, Phase::backward, mix(stash[stage], weights[stage]));
  return {stash, gradients};
}

std::vector<bool> splitStages(const Schedule &schedule) {
  std::vector<bool> split(schedule.stages());
  for (const RankRows &rank : schedule.ranks)
    for (const std::vector<Step> *part : {&rank.warmUp, &rank.repeat, &rank.drain})
      for (const Step &step : *part)
        if (step.task.phase == Phase::backwardInput || step.task.phase == Phase::backwardWeight)
          split[step.task.stage] = true;
  return split;
}

/// Gradients of one update: per replica, those of its microbatches in ascending order.
class UpdateSums {
public:
  explicit UpdateSums(size_t replicas) : sums(replicas) {}

  void add(int64_t microbatch, Word gradient, std::optional<Word> other) {
    auto &[first, second] = sums[microbatch % sums.size()];
    first = mix(first, gradient);
    second = other ? mix(second, *other) : second;
  }
  /// One replica's are the sum; several are added in their order.
  Word take(Word weight, Word total) {
    auto [first, second] = sums[0];
    if (sums.size() > 1)
      first = second = 0;
    for (size_t i = 0; sums.size() > 1 && i < sums.size(); ++i)
      first = mix(first, sums[i].first), second = mix(second, sums[i].second);
    sums.assign(sums.size(), {0, 0});
    return nextWeight(weight, first, second, total);
  }

private:
  std::vector<std::pair<Word, Word>> sums;
};

Weights followUpdateRule(const Schedule &schedule, const std::vector<Edge> &edges,
                         const std::vector<int64_t> &rounds) {
  int stages = schedule.stages();
  std::vector<Weights> history(stages); ///< by stage and version
  std::vector<UpdateSums> sums;
  for (int stage = 0; stage < stages; ++stage) {
    history[stage].push_back(initialWeight(stage));
    sums.emplace_back(schedule.ranksOfStage[stage].size());
  }
  std::vector<bool> split = splitStages(schedule);
  std::vector<int64_t> lag = toy::lags(schedule);
  int64_t start = 0;
  for (int64_t iterations : rounds) {
    int64_t end = start + toy::microbatchesOf(schedule, iterations);
    Word total = 0;
    for (int64_t t = start; t < end; ++t) {
      Weights used;
      for (int stage = 0; stage < stages; ++stage)
        used.push_back(schedule.asynchronous
                           ? history[stage][toy::dueVersion(schedule, lag[stage], stage, t, start)]
                           : history[stage].back());
      auto [stash, gradients] = passThrough(used, edges, t);
      for (int stage = 0; stage < stages; ++stage)
        total += schedule.asynchronous ? 0 : gradients[stage];
      for (int stage = 0; stage < stages; ++stage) {
        int64_t size = toy::sizeOfUpdate(schedule, stage);
        sums[stage].add(t - start, gradients[stage],
                        split[stage] ? std::optional(weightGradient(gradients[stage], stash[stage],
                                                                    used[stage]))
                                     : std::nullopt);
        if (schedule.asynchronous ? (t + 1) % size == 0 : t + 1 == end)
          history[stage].push_back(sums[stage].take(history[stage].back(), total));
      }
    }
    start = end;
  }
  Weights final;
  for (int stage = 0; stage < stages; ++stage)
    final.insert(final.end(), schedule.ranksOfStage[stage].size(), history[stage].back());
  return final;
}

} // namespace

bool runsCorrectly(const Schedule &schedule, const std::vector<Edge> &edges) {
  int64_t stages = schedule.stages();
  // An iteration of replicas has many microbatches.
  std::vector<int64_t> rounds = {2 * stages + 3, 2, stages};
  if (schedule.period > 1)
    rounds = {stages / schedule.period + 3, 1, 2};
  Weights expected = followUpdateRule(schedule, edges, rounds);
  return runPipeline(schedule, edges, rounds, false) == expected &&
         runPipeline(schedule, edges, rounds, true) == expected;
}

} // namespace pdc
