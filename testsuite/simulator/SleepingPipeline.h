#pragma once

#include "compiler/plan/Plan.h"
#include "runtime/Program.h"

#include <deque>
#include <string>
#include <vector>

namespace pdc {

/// The programs of a plan with one rank per stage, whose tasks sleep for the seconds that the plan
/// gives them instead of computing: rows, slots and messages are the plan's. One per process.
class SleepingPipeline {
public:
  explicit SleepingPipeline(const Plan &plan);
  runtime::Programs source() const { return {all.data(), static_cast<int>(all.size())}; }

private:
  struct Tables {
    std::vector<runtime::Region> regions;
    std::vector<runtime::Memory> memories;
    std::vector<runtime::Transfer> transfers;
    std::vector<runtime::Step> step, warmUp, repeat, drain;
    std::vector<runtime::StageInfo> stages;
    std::vector<int> transferOfEdge; ///< -1: not of this rank
  };
  int64_t addTransfers(Tables &tables, int stage);
  void addRegions(Tables &tables, int stage, int64_t slotBytes);
  std::vector<runtime::Step> stepsOf(const std::vector<Step> &rows, const Tables &tables) const;
  void fill(int rank);

  Plan plan;
  std::deque<Tables> tables;
  std::vector<runtime::Program> all;
};

} // namespace pdc
