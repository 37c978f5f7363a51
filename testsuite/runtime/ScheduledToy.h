#pragma once

#include "compiler/schedule/Schedule.h"
#include "runtime/Executor.h"

#include <deque>
#include <string>
#include <vector>

namespace toy {

/// The programs of any schedule, whose tasks mix integers: another microbatch, version or tensor
/// anywhere gives other weights. What the runtime makes of them is compared with a literal run of
/// the update rule.
class ScheduledToy {
public:
  ScheduledToy(const pdc::Schedule &schedule, const std::vector<pdc::Edge> &edges);

  struct Ended {
    std::vector<std::vector<uint32_t>> weights; ///< by stage and replica
    std::string error; ///< without weights: a rank failed, or waited too long
  };

  /// Runs so many microbatches after one another: of synchronous schedules a minibatch each, of
  /// asynchronous ones until the pipeline is drained. With a seed every group of messages blocks
  /// its rank, after a drawn delay; with 0 messages move beside the tasks.
  Ended run(const std::vector<int64_t> &rounds, uint64_t delaySeed) const;
  /// One rank of them; fills in the weights of its stages.
  void runRank(int rank, pdc::runtime::Transport &transport, pdc::runtime::Control &control,
               const std::vector<int64_t> &rounds, uint64_t delaySeed,
               std::vector<std::vector<uint32_t>> &weights) const;
  /// The same, by the rule alone.
  std::vector<std::vector<uint32_t>> expected(const std::vector<int64_t> &rounds) const;

private:
  struct Tables {
    std::vector<pdc::runtime::Region> regions;
    std::vector<pdc::runtime::Memory> memories;
    std::vector<pdc::runtime::Transfer> transfers;
    std::vector<pdc::runtime::Move> moves;
    std::vector<pdc::runtime::StageInfo> stages;
    std::vector<pdc::runtime::Step> step, warmUp, repeat, drain;
    std::deque<std::vector<int>> gradients;
    std::deque<std::string> names;
    /// By edge: when received, when sent; -1: not here.
    std::vector<std::vector<int>> transferOfEdge;
  };
  void fill(int rank);
  void addFixed(Tables &tables, int stage);
  void addStage(Tables &tables, int stage);
  void addEdges(Tables &tables, int stage);
  std::vector<pdc::runtime::Step> stepsOf(const std::vector<pdc::Step> &rows,
                                          const Tables &tables) const;

  const pdc::Schedule &schedule;
  const std::vector<pdc::Edge> &edges;
  std::deque<Tables> tables;
  std::vector<pdc::runtime::Program> programs;
};

} // namespace toy
