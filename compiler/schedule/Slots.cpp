#include "compiler/schedule/Slots.h"

#include <algorithm>
#include <map>

namespace pdc {

namespace {

/// The actions of a rank between which a microbatch occupies its slot, both ends included: the
/// transfers of a group happen at one time.
struct Lifetime {
  size_t first = 0, last = 0;

  bool meets(const Lifetime &other) const { return first <= other.last && other.first <= last; }
};

using Lifetimes = std::map<int64_t, Lifetime>; ///< by microbatch

std::vector<Lifetimes> lifetimesOf(const Schedule &schedule, const UnrolledRows &rows,
                                   std::span<const Edge> edges) {
  std::vector<Lifetimes> result(schedule.stages());
  auto touch = [&](int stage, int64_t microbatch, size_t action) {
    auto [entry, isNew] = result[stage].try_emplace(microbatch, Lifetime{action, action});
    entry->second.last = std::max(entry->second.last, action);
  };
  for (const auto &actions : rows.ranks)
    for (size_t i = 0; i < actions.size(); ++i)
      for (const Step &step : actions[i].steps) {
        if (step.kind == StepKind::allReduce || step.task.phase == Phase::update)
          continue;
        touch(step.task.stage, step.task.microbatch, i);
        // Stages of one rank read each other's outboxes in place.
        for (const Edge &edge : edges)
          if (step.kind == StepKind::run && consumes(step.task, edge) &&
              schedule.shareRanks(edge.fromStage, edge.toStage))
            touch(edge.fromStage, step.task.microbatch, i);
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
  for (const auto &[microbatch, life] : lifetimes)
    for (auto later = lifetimes.upper_bound(microbatch); later != lifetimes.end(); ++later)
      if ((later->first - microbatch) % slots == 0 && life.meets(later->second))
        return false;
  return true;
}

std::vector<int> roundRobin(int64_t slots) {
  std::vector<int> table;
  for (int64_t slot = 0; slot < slots; ++slot)
    table.push_back(static_cast<int>(slot));
  return table;
}

/// By start, the lowest slot that is free: needs no more slots than microbatches live at once.
std::vector<int> colour(const Lifetimes &lifetimes) {
  std::vector<std::pair<Lifetime, int64_t>> order;
  for (const auto &[microbatch, life] : lifetimes)
    order.push_back({life, microbatch});
  std::ranges::sort(order, {}, [](const auto &entry) { return entry.first.first; });
  std::vector<int> table(lifetimes.size());
  std::vector<size_t> freeAfter;
  for (const auto &[life, microbatch] : order) {
    auto free = std::ranges::find_if(freeAfter, [&](size_t last) { return last < life.first; });
    if (free == freeAfter.end())
      free = freeAfter.insert(free, 0);
    *free = life.last;
    table[microbatch] = static_cast<int>(free - freeAfter.begin());
  }
  return table;
}

std::vector<int> tableOf(const Schedule &schedule, const Lifetimes &lifetimes) {
  int64_t slots = mostAtOnce(lifetimes);
  if (!schedule.asynchronous && !fits(lifetimes, slots))
    return colour(lifetimes);
  while (!fits(lifetimes, slots))
    ++slots;
  return roundRobin(slots);
}

} // namespace

void assignSlots(Schedule &schedule, std::span<const Edge> edges) {
  int64_t iterations = 4 * schedule.stages() + 8;
  std::vector<int64_t> rounds = {schedule.asynchronous ? iterations : 0};
  schedule.slotTable.clear();
  schedule.slots.clear();
  for (const Lifetimes &lifetimes : lifetimesOf(schedule, unroll(schedule, rounds), edges)) {
    schedule.slotTable.push_back(tableOf(schedule, lifetimes));
    schedule.slots.push_back(*std::ranges::max_element(schedule.slotTable.back()) + 1);
  }
}

void assignVersions(Schedule &schedule) {
  schedule.versions.assign(schedule.stages(), 1);
  if (!schedule.asynchronous)
    return;
  std::vector<int64_t> rounds = {4 * schedule.stages() + 8};
  std::vector<int64_t> updates(schedule.stages());
  std::vector<std::map<int64_t, int64_t>> held(schedule.stages());
  for (const auto &actions : unroll(schedule, rounds).ranks)
    for (const Action &action : actions) {
      const Step &step = action.steps[0];
      int stage = step.task.stage;
      if (step.kind != StepKind::run)
        continue;
      if (step.task.phase == Phase::forward)
        held[stage][step.task.microbatch] = updates[stage];
      if (step.task.phase == Phase::backward || step.task.phase == Phase::backwardWeight)
        held[stage].erase(step.task.microbatch);
      if (step.task.phase != Phase::update)
        continue;
      int64_t oldest = ++updates[stage];
      for (const auto &[microbatch, version] : held[stage])
        oldest = std::min(oldest, version);
      schedule.versions[stage] =
          std::max(schedule.versions[stage], static_cast<int>(updates[stage] - oldest + 1));
    }
}

int slotOf(const Schedule &schedule, int stage, int64_t microbatch) {
  const std::vector<int> &table = schedule.slotTable[stage];
  int64_t number = schedule.asynchronous ? microbatch : microbatch % schedule.microbatches;
  return table[number % static_cast<int64_t>(table.size())];
}

} // namespace pdc
