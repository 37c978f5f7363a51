#include "compiler/schedule/Slots.h"

#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Versions.h"

#include <algorithm>
#include <map>
#include <optional>

namespace pdc {

namespace {

/// The actions of a rank between which a microbatch occupies its slot, both ends included: the
/// transfers of a group happen at one time.
struct Lifetime {
  size_t first = 0, last = 0;

  bool meets(const Lifetime &other) const { return first <= other.last && other.first <= last; }
};

/// Of one replica, by its turn: microbatch k of r replicas is turn k / r.
using Lifetimes = std::map<int64_t, Lifetime>;
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

int mostAtOnce(const Lifetimes &lifetimes) {
  int most = 1;
  for (const auto &[microbatch, life] : lifetimes) {
    int count = 0;
    for (const auto &[other, otherLife] : lifetimes)
      count += otherLife.first <= life.first && life.first <= otherLife.last;
    most = std::max(most, count);
  }
  return most;
}

bool fits(const Lifetimes &lifetimes, int64_t slots) {
  for (const auto &[turn, life] : lifetimes)
    for (auto later = lifetimes.upper_bound(turn); later != lifetimes.end(); ++later)
      if ((later->first - turn) % slots == 0 && life.meets(later->second))
        return false;
  return true;
}

bool fits(const Replicas &replicas, int64_t slots) {
  return std::ranges::all_of(replicas, [&](const Lifetimes &own) { return fits(own, slots); });
}

std::vector<int> roundRobin(int64_t slots) {
  std::vector<int> table;
  for (int64_t slot = 0; slot < slots; ++slot)
    table.push_back(static_cast<int>(slot));
  return table;
}

/// By start on the first replica, which has the most turns, the lowest slot that is free for that
/// turn on all of them: of one replica alone, no more slots than microbatches live at once.
std::vector<int> colour(const Replicas &replicas) {
  std::vector<std::pair<size_t, int64_t>> order;
  for (const auto &[turn, life] : replicas[0])
    order.push_back({life.first, turn});
  std::ranges::sort(order);
  auto meet = [&](int64_t turn, int64_t other) {
    return std::ranges::any_of(replicas, [&](const Lifetimes &own) {
      return own.contains(turn) && own.contains(other) && own.at(turn).meets(own.at(other));
    });
  };
  std::vector<int> table(order.size());
  std::vector<std::vector<int64_t>> turnsOfSlot;
  for (auto [start, turn] : order) {
    auto free = std::ranges::find_if(turnsOfSlot, [&](const std::vector<int64_t> &turns) {
      return std::ranges::none_of(turns, [&](int64_t other) { return meet(turn, other); });
    });
    if (free == turnsOfSlot.end())
      free = turnsOfSlot.insert(free, std::vector<int64_t>());
    free->push_back(turn);
    table[turn] = static_cast<int>(free - turnsOfSlot.begin());
  }
  return table;
}

std::vector<int> tableOf(const Schedule &schedule, const Replicas &replicas) {
  int64_t slots = 1;
  for (const Lifetimes &own : replicas)
    slots = std::max<int64_t>(slots, mostAtOnce(own));
  if (!schedule.asynchronous && !fits(replicas, slots))
    return colour(replicas);
  while (!fits(replicas, slots))
    ++slots;
  return roundRobin(slots);
}

} // namespace

void assignSlots(Schedule &schedule, std::span<const Edge> edges) {
  std::vector<int64_t> rounds = {schedule.asynchronous ? iterationsToSettle(schedule) : 0};
  schedule.slotTable.clear();
  schedule.slots.clear();
  for (const Replicas &replicas : lifetimesOf(schedule, unroll(schedule, rounds), edges)) {
    schedule.slotTable.push_back(tableOf(schedule, replicas));
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
