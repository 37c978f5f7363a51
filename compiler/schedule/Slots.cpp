#include "compiler/schedule/Slots.h"

#include "compiler/schedule/Lifetimes.h"
#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Versions.h"

#include <algorithm>
#include <map>
#include <optional>

namespace pdc {

namespace {

using Replicas = std::vector<Lifetimes>;

std::vector<Replicas> lifetimesOf(const Schedule &schedule, const UnrolledRows &rows,
                                  std::span<const Edge> edges) {
  std::vector<Replicas> result;
  StageEdges ofStages(edges, schedule.stages());
  for (int stage = 0; stage < schedule.stages(); ++stage)
    result.emplace_back(schedule.replicas(stage));
  auto touch = [&](int stage, int64_t microbatch, size_t action) {
    int64_t replicas = schedule.replicas(stage);
    Lifetimes &own = result[stage][microbatch % replicas];
    auto [entry, isNew] = own.try_emplace(microbatch / replicas, Lifetime{action, action});
    entry->second.last = std::max(entry->second.last, action);
  };
  for (const auto &actions : rows.ranks)
    for (size_t i = 0; i < actions.size(); ++i)
      for (const Step &step : actions[i].steps) {
        if (step.kind == StepKind::allReduce || step.task.phase == Phase::update)
          continue; // sums and updates touch no slot
        touch(step.task.stage, step.task.microbatch, i);
        // What stays on its rank is handed over at once.
        for (const Edge *edge : ofStages.leaving(step.task.stage))
          if (step.kind == StepKind::run && handsOver(schedule, step.task, *edge))
            touch(edge->toStage, step.task.microbatch, i);
      }
  return result;
}

} // namespace

void assignSlots(Schedule &schedule, std::span<const Edge> edges) {
  std::vector<int64_t> rounds = {schedule.asynchronous ? iterationsToSettle(schedule) : 0};
  schedule.slotTable.clear();
  schedule.slots.clear();
  for (const Replicas &replicas : lifetimesOf(schedule, unroll(schedule, rounds), edges)) {
    schedule.slotTable.push_back(makeSlotTable(replicas, schedule.asynchronous));
    schedule.slots.push_back(*std::ranges::max_element(schedule.slotTable.back()) + 1);
  }
}

namespace {

/// The versions of a stage that one of its replicas still needs.
struct KeptVersions {
  int64_t updates = 0;
  std::map<int64_t, int64_t> held; ///< by microbatch that has not ended
  std::optional<int64_t> next;     ///< of the replica's next microbatch, where it is older

  int64_t count() const {
    int64_t oldest = std::min(updates, next.value_or(updates));
    for (const auto &[microbatch, version] : held)
      oldest = std::min(oldest, version);
    return updates - oldest + 1;
  }
};

} // namespace

void assignVersions(Schedule &schedule) {
  schedule.versions.assign(schedule.stages(), 1);
  if (!schedule.asynchronous)
    return;
  std::vector<int64_t> rounds = {iterationsToSettle(schedule)};
  for (const auto &actions : unroll(schedule, rounds).ranks) {
    std::vector<KeptVersions> kept(schedule.stages());
    for (const Action &action : actions) {
      const Step &step = action.steps[0];
      int stage = step.task.stage;
      int64_t microbatch = step.task.microbatch;
      KeptVersions &own = kept[stage];
      if (step.kind != StepKind::run)
        continue;
      auto read = [&](int64_t of) { return versionRead(schedule, stage, of, 0); };
      bool stashed = schedule.weightRule == WeightRule::stashed;
      if (step.task.phase == Phase::forward) {
        own.held[microbatch] = stashed ? own.updates : read(microbatch);
        if (!stashed)
          own.next = read(microbatch + schedule.replicas(stage));
      }
      if (step.task.phase == Phase::backward || step.task.phase == Phase::backwardWeight)
        own.held.erase(microbatch);
      if (step.task.phase != Phase::update)
        continue;
      ++own.updates;
      schedule.versions[stage] = std::max(schedule.versions[stage], static_cast<int>(own.count()));
    }
  }
}

int slotOf(const Schedule &schedule, int stage, int64_t microbatch) {
  const std::vector<int> &table = schedule.slotTable[stage];
  int64_t number = schedule.asynchronous ? microbatch : microbatch % schedule.microbatches;
  return table[number / schedule.replicas(stage) % static_cast<int64_t>(table.size())];
}

} // namespace pdc
