#include "runtime/ReplicaSums.h"
#include "runtime/Control.h"
#include "runtime/Transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

namespace pdc::runtime {
namespace {

constexpr int kReplicas = 3;

/// What a rank's stages sum, by memory: its floats.
using Floats = std::vector<std::vector<float>>;

/// A program of two stages, of which each has three gradients and two running statistics.
struct SummedProgram {
  explicit SummedProgram(int rank, bool asynchronous) {
    const std::vector<int64_t> sizes = {4, 1, 6, 3, 5, 9, 2, 8, 1, 4};
    for (int64_t size : sizes) {
      Memory memory{};
      memory.role = memories.size() % 5 < 3 ? Role::gradient : Role::state;
      memory.place = {0, program.arenaBytes};
      memory.bytes = 4 * size;
      memories.push_back(memory);
      program.arenaBytes += 64;
    }
    regions = {{"fixed", 0, program.arenaBytes, 1}};
    for (int id : {0, 1}) {
      const std::span<const int> own = std::span(indices).subspan(size_t(id) * 5, 5);
      StageInfo info{};
      info.id = id;
      info.ranks = ranks;
      info.gradients = own.first(3);
      info.states = own.last(2);
      stages.push_back(info);
    }
    // The sums of the last stage, whose backward pass is first, come first.
    for (int id : {1, 0})
      rows.push_back({StepKind::reduceGradients, Phase::update, id, 0, -1});
    program.rank = rank;
    program.ranks = kReplicas;
    program.asynchronous = asynchronous;
    program.regions = regions;
    program.memories = memories;
    program.stages = stages;
    program.training.step = rows;
  }
  SummedProgram(const SummedProgram &) = delete;

  const std::vector<int> ranks = {0, 1, 2}, indices = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<Memory> memories;
  std::vector<Region> regions;
  std::vector<StageInfo> stages;
  std::vector<Step> rows;
  Program program{};
};

/// Numbers whose sums round, other ones in each update of each rank.
Floats drawnFloats(const Program &program, int update) {
  std::mt19937 random(unsigned(program.rank + 10 * update));
  std::uniform_real_distribution<float> draw(-1, 1);
  Floats all;
  for (const Memory &memory : program.memories)
    for (all.emplace_back(); all.back().size() < size_t(memory.bytes) / 4;)
      all.back().push_back(draw(random));
  return all;
}

/// One float after the other, in the order of the replicas.
Floats summedFloats(const std::vector<Floats> &ofReplicas, int present) {
  Floats sums = ofReplicas[0];
  for (size_t memory = 0; memory < sums.size(); ++memory)
    for (size_t i = 0; i < sums[memory].size(); ++i) {
      for (int replica = 1; replica < present; ++replica)
        sums[memory][i] += ofReplicas[size_t(replica)][memory][i];
      if (memory % 5 >= 3)
        sums[memory][i] /= float(present);
    }
  return sums;
}

struct SumsCase {
  int64_t bucketElements;
  bool asynchronous;
};

/// The replicas as threads, each late at its own times; every update has other replicas present.
class SumsOfReplicas {
public:
  explicit SumsOfReplicas(SumsCase given) : given(given), network(kReplicas), plane(kReplicas) {}

  void run() {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kReplicas; ++rank)
      threads.emplace_back([this, rank] { runRank(rank); });
    for (std::thread &thread : threads)
      thread.join();
  }

  std::vector<std::vector<Floats>> before{kReplicas}, after{kReplicas}; ///< by rank and update

private:
  void runRank(int rank) {
    const SummedProgram summed(rank, given.asynchronous);
    const Arena arena(summed.program);
    auto endpoint = network.endpoint(rank);
    ReplicaSums sums(summed.program, arena, *endpoint, plane.of(rank), 60, given.bucketElements);
    std::mt19937 random{unsigned(rank)};
    for (int present = 1; present <= kReplicas; ++present) {
      before[size_t(rank)].push_back(drawnFloats(summed.program, present));
      for (int stage : {1, 0}) {
        sums.begin(stage, present);
        makeStage(sums, arena, summed.program, stage, before[size_t(rank)].back(), random);
        if (given.asynchronous)
          sums.finish(stage, present);
      }
      for (int stage : {1, 0})
        if (!given.asynchronous)
          sums.finish(stage, present);
      after[size_t(rank)].push_back(read(arena, summed.program));
    }
    sums.stop();
  }

  /// Its statistics, then its gradients one after the other.
  static void makeStage(ReplicaSums &sums, const Arena &arena, const Program &program, int stage,
                        const Floats &made, std::mt19937 &random) {
    for (size_t part : {3, 4, 0, 1, 2}) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
      const size_t memory = size_t(stage) * 5 + part;
      std::ranges::copy(made[memory],
                        reinterpret_cast<float *>(arena.at(program.memories[memory].place)));
      if (part < 3)
        sums.made(int(part) + 1);
    }
  }

  static Floats read(const Arena &arena, const Program &program) {
    Floats all;
    for (const Memory &memory : program.memories) {
      const auto *values = reinterpret_cast<const float *>(arena.at(memory.place));
      all.emplace_back(values, values + memory.bytes / 4);
    }
    return all;
  }

  const SumsCase given;
  LocalNetwork network;
  LocalControlPlane plane;
};

/// Buckets that end within gradients and statistics, the last of them partly full, of as few floats
/// as replicas and fewer, and of all.
TEST(ReplicaSums, AreThoseOfOneFloatAfterTheOther) {
  for (int64_t bucketElements : {1, 2, 5, 7, 8, 10, 14, 16, 38, 64, 1 << 20})
    for (bool asynchronous : {false, true}) {
      SCOPED_TRACE(testing::Message() << bucketElements << ' ' << asynchronous);
      SumsOfReplicas sums({bucketElements, asynchronous});
      sums.run();
      for (size_t update = 0; update < size_t(kReplicas); ++update) {
        std::vector<Floats> made;
        for (const std::vector<Floats> &ofRank : sums.before)
          made.push_back(ofRank[update]);
        const Floats expected = summedFloats(made, int(update) + 1);
        for (const std::vector<Floats> &ofRank : sums.after)
          EXPECT_EQ(ofRank[update], expected) << "with " << update + 1 << " present";
      }
    }
}

} // namespace
} // namespace pdc::runtime
