#include "compiler/Error.h"
#include "compiler/schedule/Proof.h"
#include "compiler/schedule/Rows.h"
#include "compiler/schedule/Schedules.h"
#include "testsuite/schedule/AnyPipeline.h"
#include "testsuite/schedule/RandomEdges.h"
#include "testsuite/schedule/ToyPipeline.h"
#include "testsuite/schedule/ToyRule.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <random>

namespace pdc {
namespace {

/// A checker never judges itself: schedules are broken at random, run with integer kernels, and
/// those that hang or end with other weights must have been refused.
class Mutator {
public:
  explicit Mutator(unsigned seed) : random(seed) {}

  Schedule original(std::vector<Edge> &edges);
  Pipeline pipelineOf(const ScheduleKind &kind);
  Pipeline placedPipelineOf(const ScheduleKind &kind);
  /// False where the schedule has nothing of that kind to break.
  bool mutate(Schedule &schedule, int kind);

  static constexpr std::array names = {
      "swapped neighbours", "swapped steps", "missing transfer", "missing run",    "doubled step",
      "wrong microbatch",   "wrong slot",    "fewer slots",      "fewer versions", "wrong peer",
      "moved step",         "wrong edge",    "wrong reduction"};

private:
  size_t draw(size_t count) { return random() % count; }
  std::vector<Step> *rows(Schedule &schedule);
  std::vector<size_t> ofKind(const std::vector<Step> &rows, bool transfers);
  bool mutateRows(Schedule &schedule, int kind);
  bool mutateTables(Schedule &schedule, int kind);
  bool mutateReduction(Schedule &schedule);

  std::mt19937 random;
};

/// Several stages per rank, half of them with replicas.
Pipeline Mutator::placedPipelineOf(const ScheduleKind &kind) {
  int places = 1 + static_cast<int>(draw(3)), chunks = 2 + static_cast<int>(draw(2));
  int64_t turns = 1 + static_cast<int64_t>(draw(4));
  std::vector<int> replicas(places, 1);
  for (int &count : replicas)
    count += draw(2) ? static_cast<int>(draw(2)) : 0;
  return anyPlacedPipeline(kind, replicas, turns, chunks);
}

/// With replicas, or several stages per rank, or both, or neither.
Pipeline Mutator::pipelineOf(const ScheduleKind &kind) {
  if (kind.placement != StagePlacement::straight)
    return placedPipelineOf(kind);
  bool replicated = draw(2);
  std::vector<int> replicas(2 + draw(replicated ? 2 : 4), 1);
  for (int &count : replicas)
    count += replicated ? static_cast<int>(draw(3)) : 0;
  int64_t microbatches = 1 + static_cast<int64_t>(draw(6));
  Pipeline pipeline =
      replicatedPipeline(replicas, toy::fittingMicrobatches(kind.name, replicas, microbatches));
  bool equal = std::ranges::count(replicas, replicas[0]) == pipeline.stages;
  pipeline.verticalSync = draw(2) && equal;
  return pipeline;
}

Schedule Mutator::original(std::vector<Edge> &edges) {
  const ScheduleKind &kind = schedules()[draw(schedules().size())];
  Pipeline pipeline = pipelineOf(kind);
  edges = draw(2) ? chainEdges(pipeline.stages) : randomEdges(pipeline.stages, random);
  return completeSchedule(kind.make(pipeline), edges);
}

std::vector<Step> *Mutator::rows(Schedule &schedule) {
  RankRows &rank = schedule.ranks[draw(schedule.ranks.size())];
  std::vector<std::vector<Step> *> parts;
  for (std::vector<Step> *part : {&rank.warmUp, &rank.repeat, &rank.drain})
    if (part->size() > 1)
      parts.push_back(part);
  return parts.empty() ? nullptr : parts[draw(parts.size())];
}

std::vector<size_t> Mutator::ofKind(const std::vector<Step> &rows, bool transfers) {
  std::vector<size_t> found;
  for (size_t i = 0; i < rows.size(); ++i) {
    bool isTransfer = rows[i].kind == StepKind::send || rows[i].kind == StepKind::receive;
    if (isTransfer == transfers && rows[i].kind != StepKind::allReduce)
      found.push_back(i);
  }
  return found;
}

bool Mutator::mutateRows(Schedule &schedule, int kind) {
  std::vector<Step> *part = rows(schedule);
  if (!part)
    return false;
  bool wantsTransfer = kind == 2 || kind == 9 || kind == 11;
  std::vector<size_t> some = ofKind(*part, wantsTransfer || (kind > 3 && draw(2)));
  if (some.empty())
    return false;
  size_t one = some[draw(some.size())], other = draw(part->size());
  Step copy = (*part)[one];
  switch (kind) {
  case 0:
    other = draw(part->size() - 1);
    std::swap((*part)[other], (*part)[other + 1]);
    break;
  case 1:
    std::swap((*part)[one], (*part)[other]);
    break;
  case 2:
  case 3:
    part->erase(part->begin() + one);
    break;
  case 4:
    part->insert(part->begin() + other, copy);
    break;
  case 5:
    (*part)[one].task.microbatch += draw(2) ? 1 : -1;
    return (*part)[one].task.microbatch >= 0;
  case 9:
    (*part)[one].peer = static_cast<int>(draw(schedule.ranks.size()));
    break;
  case 10:
    part->erase(part->begin() + one);
    part->insert(part->begin() + draw(part->size() + 1), copy);
    break;
  case 11:
    (*part)[one].edge += draw(2) || !copy.edge ? 0 : -1;
    break;
  }
  return true;
}

bool Mutator::mutateTables(Schedule &schedule, int kind) {
  size_t stage = draw(schedule.slots.size());
  std::vector<int> &table = schedule.slotTable[stage];
  if (kind == 6)
    table[draw(table.size())] = static_cast<int>(draw(schedule.slots[stage]));
  else if (kind == 7 && table.size() > 1)
    table.pop_back();
  else if (kind == 8 && schedule.versions[stage] > 1)
    --schedule.versions[stage];
  else
    return false;
  return true;
}

/// A replica leaves a sum out, makes it twice, or takes part in another one.
bool Mutator::mutateReduction(Schedule &schedule) {
  std::vector<Step> *part = rows(schedule);
  std::vector<size_t> sums;
  for (size_t i = 0; part && i < part->size(); ++i)
    if ((*part)[i].kind == StepKind::reduceGradients)
      sums.push_back(i);
  if (sums.empty())
    return false;
  size_t one = sums[draw(sums.size())];
  Step &sum = (*part)[one];
  switch (draw(4)) {
  case 0:
    part->erase(part->begin() + one);
    break;
  case 1:
    part->insert(part->begin() + one, Step(sum));
    break;
  case 2:
    sum.task.stage = static_cast<int>(draw(schedule.stages()));
    break;
  case 3:
    sum.task.microbatch += schedule.replicas(sum.task.stage);
    break;
  }
  return true;
}

bool Mutator::mutate(Schedule &schedule, int kind) {
  if (kind == 12)
    return mutateReduction(schedule);
  return kind >= 6 && kind <= 8 ? mutateTables(schedule, kind) : mutateRows(schedule, kind);
}

/// The toy kernels' sums know their order, as floats do: what --exact promises.
bool isAccepted(const Schedule &schedule, const std::vector<Edge> &edges) {
  try {
    proveNoDeadlock(schedule, edges);
    checkData(schedule, edges);
    checkOrder(schedule, edges);
    return true;
  } catch (const Error &) {
    return false;
  }
}

TEST(Mutants, WrongOnesAreRefused) {
  Mutator mutator(2026);
  int wrong = 0, right = 0, rightButRefused = 0;
  std::array<int, Mutator::names.size()> wrongOfKind{};
  for (int round = 0; round < 5200; ++round) {
    std::vector<Edge> edges;
    Schedule schedule = mutator.original(edges);
    int kind = round % static_cast<int>(Mutator::names.size());
    if (!mutator.mutate(schedule, kind))
      continue;
    bool accepted = isAccepted(schedule, edges);
    if (runsCorrectly(schedule, edges)) {
      ++right;
      rightButRefused += !accepted;
      continue;
    }
    ++wrong;
    ++wrongOfKind[kind];
    EXPECT_FALSE(accepted) << "round " << round << ": " << Mutator::names[kind];
  }
  EXPECT_GT(wrong, 3000);
  for (size_t kind = 0; kind < wrongOfKind.size(); ++kind)
    RecordProperty(std::to_string(kind), wrongOfKind[kind]);
  std::cout << wrong << " wrong mutants, all refused; of " << right << " harmless ones "
            << rightButRefused << " refused\n";
}

} // namespace
} // namespace pdc
