#include "testsuite/schedule/ToyPipeline.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

namespace pdc {

namespace {

using Word = uint64_t;
using Weights = std::vector<Word>; ///< one per stage

Word mix(Word a, Word b) {
  Word z = (a ^ (b + 0x9E3779B97F4A7C15)) * 0xBF58476D1CE4E5B9;
  return (z ^ (z >> 29)) * 0x94D049BB133111EB;
}

Word initialWeight(size_t stage) { return mix(11, stage); }

/// What the forward and backward kernels start from, before their inputs are mixed in.
Word forwardSeed(int stage, Word weight, int64_t microbatch) {
  return mix(mix(stage, weight), stage == 0 ? microbatch : 0);
}

/// Everything that ranks share: messages that meet, and sums over all ranks.
class Network {
public:
  Network(int ranks, bool byEdge) : byEdge(byEdge), waiting(ranks), finished(ranks) {}

  struct Post {
    bool send;
    int from, to, edge;
    Word *word;
    bool done = false;
  };

  /// Posts all, returns when each has met its other side; false when the run hangs.
  bool exchange(int rank, std::vector<Post> &posts);
  std::optional<Word> sum(int rank, size_t number, Word own);
  void finish(int rank);
  bool hangs() const { return hung; }

private:
  void meet(Post &post);
  bool waitFor(int rank, std::unique_lock<std::mutex> &lock, std::function<bool()> done);
  void lookForHang();

  bool byEdge;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::vector<int>, std::deque<Post *>> sends, receives;
  std::map<size_t, std::pair<size_t, Word>> sums;
  std::vector<std::function<bool()>> waiting;
  std::vector<bool> finished;
  bool hung = false;
};

void Network::meet(Post &post) {
  std::vector<int> key = {post.from, post.to, byEdge ? post.edge : 0};
  std::deque<Post *> &own = (post.send ? sends : receives)[key];
  std::deque<Post *> &others = (post.send ? receives : sends)[key];
  own.push_back(&post);
  while (!own.empty() && !others.empty()) {
    Post *send = sends[key].front(), *receive = receives[key].front();
    sends[key].pop_front();
    receives[key].pop_front();
    *receive->word = *send->word;
    send->done = receive->done = true;
  }
}

void Network::lookForHang() {
  for (size_t rank = 0; rank < waiting.size(); ++rank)
    if (!finished[rank] && (!waiting[rank] || waiting[rank]()))
      return;
  hung = std::ranges::find(finished, false) != finished.end();
}

bool Network::waitFor(int rank, std::unique_lock<std::mutex> &lock, std::function<bool()> done) {
  waiting[rank] = done;
  lookForHang();
  changed.notify_all();
  changed.wait(lock, [&] { return hung || done(); });
  waiting[rank] = nullptr;
  return !hung;
}

bool Network::exchange(int rank, std::vector<Post> &posts) {
  std::unique_lock lock(mutex);
  for (Post &post : posts)
    meet(post);
  return waitFor(rank, lock, [&] {
    return std::ranges::all_of(posts, [](const Post &post) { return post.done; });
  });
}

std::optional<Word> Network::sum(int rank, size_t number, Word own) {
  std::unique_lock lock(mutex);
  ++sums[number].first;
  sums[number].second += own;
  if (!waitFor(rank, lock, [&] { return sums[number].first == waiting.size(); }))
    return std::nullopt;
  return sums[number].second;
}

void Network::finish(int rank) {
  std::unique_lock lock(mutex);
  finished[rank] = true;
  lookForHang();
  changed.notify_all();
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

/// A thread of its own: obeys the rows, checks nothing.
class Rank {
public:
  Rank(int rank, const Schedule &schedule, const std::vector<Edge> &edges,
       const std::vector<int64_t> &rounds, std::vector<Stage> &stages, Network &network)
      : rank(rank), schedule(schedule), edges(edges), stages(stages), network(network) {
    flatten(rounds);
  }

  void run();

private:
  void flatten(const std::vector<int64_t> &rounds);
  void append(const std::vector<Step> &part, int64_t shift);
  Slot &slot(int stage, int64_t microbatch);
  void compute(const Task &task);
  Word readInputs(const Task &task, Word word);
  void writeOutputs(const Task &task, Word word);
  bool communicate(size_t first, size_t last);

  int rank;
  const Schedule &schedule;
  const std::vector<Edge> &edges;
  std::vector<Stage> &stages;
  Network &network;
  std::vector<Step> rows;
  std::vector<bool> startsPart;
  Word metric = 0, total = 0;
  size_t sums = 0;
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
  int64_t start = 0, ahead = static_cast<int64_t>(stages.size()) - 1;
  for (int64_t iterations : rounds) {
    append(own.warmUp, start);
    for (int64_t i = 0; i < iterations; ++i)
      append(own.repeat, start + i * schedule.period);
    append(own.drain, start + iterations * schedule.period);
    start += schedule.asynchronous ? iterations + ahead : schedule.microbatches;
  }
}

Slot &Rank::slot(int stage, int64_t microbatch) {
  const std::vector<int> &table = schedule.slotTable[stage];
  if (!schedule.asynchronous)
    microbatch %= schedule.microbatches;
  return stages[stage].slots[table[microbatch % table.size()]];
}

Word Rank::readInputs(const Task &task, Word word) {
  for (const Edge &edge : edges) {
    if (edge.toStage != task.stage || !isEnd(edge.consumer, task.phase))
      continue;
    bool local = schedule.rankOf(edge.fromStage, task.microbatch) == rank;
    word = mix(word, local ? slot(edge.fromStage, task.microbatch).outbox[edge.id]
                           : slot(task.stage, task.microbatch).inbox[edge.id]);
  }
  return word;
}

void Rank::writeOutputs(const Task &task, Word word) {
  for (const Edge &edge : edges)
    if (edge.fromStage == task.stage && isEnd(edge.producer, task.phase))
      slot(task.stage, task.microbatch).outbox[edge.id] = mix(word, edge.id);
}

void Rank::compute(const Task &task) {
  Stage &stage = stages[task.stage];
  size_t copies = stage.ring.size();
  if (task.phase == Phase::forward) {
    Slot &own = slot(task.stage, task.microbatch);
    own.version = stage.version;
    own.stash = readInputs(
        task, forwardSeed(task.stage, stage.ring[stage.version % copies], task.microbatch));
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

bool Rank::communicate(size_t first, size_t last) {
  if (rows[first].kind == StepKind::allReduce) {
    std::optional<Word> sum = network.sum(rank, sums++, metric);
    total = sum.value_or(0);
    metric = 0;
    return sum.has_value();
  }
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
  std::vector<Stage> stages(schedule.stages());
  for (size_t i = 0; i < stages.size(); ++i) {
    Slot empty{std::vector<Word>(edges.size()), std::vector<Word>(edges.size())};
    stages[i].slots.assign(*std::ranges::max_element(schedule.slotTable[i]) + 1, empty);
    stages[i].ring.assign(schedule.versions[i], 0);
    stages[i].ring[0] = initialWeight(i);
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
  for (const Stage &stage : stages)
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

Weights followUpdateRule(const Schedule &schedule, const std::vector<Edge> &edges,
                         const std::vector<int64_t> &rounds) {
  int stages = schedule.stages();
  std::vector<Weights> history(1); ///< by version
  for (int stage = 0; stage < stages; ++stage)
    history[0].push_back(initialWeight(stage));
  std::vector<bool> split = splitStages(schedule);
  int64_t start = 0;
  for (int64_t iterations : rounds) {
    int64_t end = start + (schedule.asynchronous ? iterations + stages - 1 : schedule.microbatches);
    Weights sums(stages), otherSums(stages);
    Word total = 0;
    for (int64_t t = start; t < end; ++t) {
      Weights used = history.back();
      for (int stage = 0; schedule.asynchronous && stage < stages; ++stage)
        used[stage] = history[std::max(start, t - stages + 1 + stage)][stage];
      auto [stash, gradients] = passThrough(used, edges, t);
      for (int stage = 0; stage < stages; ++stage) {
        sums[stage] = mix(sums[stage], gradients[stage]);
        if (split[stage])
          otherSums[stage] =
              mix(otherSums[stage], weightGradient(gradients[stage], stash[stage], used[stage]));
        total += schedule.asynchronous ? 0 : gradients[stage];
      }
      if (!schedule.asynchronous && t + 1 < end)
        continue;
      history.push_back(history.back());
      for (int stage = 0; stage < stages; ++stage)
        history.back()[stage] =
            nextWeight(history.back()[stage], sums[stage], otherSums[stage], total);
      sums.assign(stages, 0);
      otherSums.assign(stages, 0);
    }
    start = end;
  }
  return history.back();
}

} // namespace

bool runsCorrectly(const Schedule &schedule, const std::vector<Edge> &edges) {
  int64_t stages = schedule.stages();
  std::vector<int64_t> rounds = {2 * stages + 3, 2, stages};
  Weights expected = followUpdateRule(schedule, edges, rounds);
  return runPipeline(schedule, edges, rounds, false) == expected &&
         runPipeline(schedule, edges, rounds, true) == expected;
}

} // namespace pdc
