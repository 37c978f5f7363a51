#include "compiler/plan/PlanMemory.h"

#include "compiler/Error.h"
#include "compiler/plan/Connections.h"
#include "compiler/schedule/Rows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace pdc {

static std::vector<std::vector<int>> findTiedStages(const PlanGraph &graph,
                                                    const std::vector<int> &stageOfUnit) {
  std::vector<std::vector<int>> tied;
  for (const TiedWeight &weight : graph.tied) {
    std::set<int> stages;
    for (int unit : weight.units)
      stages.insert(stageOfUnit[unit]);
    if (stages.size() > 1)
      tied.emplace_back(stages.begin(), stages.end());
  }
  return tied;
}

CutMemory sumMemory(const PlanGraph &graph, const std::vector<int> &stageOfUnit,
                    std::span<const Edge> edges) {
  size_t stages = *std::ranges::max_element(stageOfUnit) + 1;
  std::vector<MemorySum> sums(stages);
  std::vector<CrossingBytes> crossing(stages);
  std::vector<bool> sends = findSenders(graph, stageOfUnit);
  for (size_t i = graph.units.size(); i-- > 0;)
    sums[stageOfUnit[i]].add(graph.units[i], sends[i]);
  std::vector<StageMemory> shared = sharedMemory(graph, stageOfUnit);
  for (size_t stage = 0; stage < stages; ++stage)
    sums[stage].add(shared[stage]);
  std::set<std::pair<int, std::string>> boxes;
  for (const Edge &edge : edges)
    for (int stage : {edge.fromStage, edge.toStage})
      if (boxes.emplace(stage, edge.tensor).second)
        (edge.producer == Phase::forward ? crossing[stage].values : crossing[stage].gradients) +=
            edge.bytes;
  for (const PlanValue &value : graph.values) {
    const int own = stageOfUnit[value.producer];
    if (std::ranges::any_of(value.consumers, [&](int unit) { return stageOfUnit[unit] != own; })) {
      const bool frees = value.freedAt >= 0 && stageOfUnit[value.freedAt] == own;
      crossing[own].addSent(value, frees ? value.freedAt + 1 : 0);
    }
  }
  CutMemory cut{{}, findTiedStages(graph, stageOfUnit)};
  for (size_t stage = 0; stage < stages; ++stage)
    cut.stages.push_back(sums[stage].with(crossing[stage]));
  return cut;
}

bool holdsInputsBeside(std::string_view device) { return device == "cuda"; }

std::vector<StageDepth> findDepths(const Plan &plan) {
  std::vector<StageDepth> depths;
  const bool inputsBeside = holdsInputsBeside(plan.device);
  std::vector<bool> split = findSplitStages(plan.schedule);
  for (const PlanStage &stage : plan.stages)
    depths.push_back({plan.schedule.versions[stage.id], plan.schedule.slots[stage.id],
                      split[stage.id],
                      std::ranges::any_of(plan.edges,
                                          [&](const Edge &edge) {
                                            return edge.fromStage == stage.id &&
                                                   edge.producer == Phase::backward;
                                          }),
                      inputsBeside, plan.device == "cpu"});
  return depths;
}

StageHolding holdStage(const StageMemory &sum, const StageDepth &depth, int64_t beside,
                       int64_t limit, bool must, bool may) {
  int64_t kept = sum.total(depth, false) + beside, recomputed = sum.total(depth, true) + beside;
  bool tooMuch = limit && kept > limit && recomputed < kept;
  bool recompute = must || (tooMuch && may);
  return {recompute ? recomputed : kept, recompute};
}

int64_t deviceBytes(const Topology &topology, std::span<const int> ranks, int64_t given) {
  return given ? given : topology.memoryOf(ranks);
}

int64_t allowedBytes(const Topology &topology, std::span<const int> ranks,
                     const MemoryLimit &limit) {
  const int64_t bytes = deviceBytes(topology, ranks, limit.memoryBytes);
  return limit.memoryAllowance == 1
             ? bytes
             : std::llround(limit.memoryAllowance * static_cast<double>(bytes));
}

/// Bytes that other stages hold on a stage's ranks.
static int64_t heldByOthers(const Plan &plan, const PlanStage &stage) {
  int64_t bytes = 0;
  for (const PlanStage &other : plan.stages)
    bytes += other.id != stage.id && other.ranks == stage.ranks ? other.memoryBytes : 0;
  return bytes;
}

/// By stage: what it has of the scratch of another stage of its ranks, which has the most.
static std::vector<int64_t> sharedScratch(const Plan &plan, const CutMemory &cut) {
  const std::vector<StageDepth> depths = findDepths(plan);
  std::map<std::vector<int>, int> largest; ///< by ranks
  auto scratchOf = [&](int stage) { return cut.stages[stage].scratch(depths[stage], false); };
  for (const PlanStage &stage : plan.stages)
    if (int &most = largest.try_emplace(stage.ranks, stage.id).first->second;
        scratchOf(stage.id) > scratchOf(most))
      most = stage.id;
  std::vector<int64_t> bytes(plan.stages.size());
  for (const PlanStage &stage : plan.stages)
    bytes[stage.id] = largest[stage.ranks] == stage.id ? 0 : scratchOf(stage.id);
  return bytes;
}

/// By stage: what neither the schedule nor recomputation changes.
static std::vector<int64_t> besideBytes(const Plan &plan, const CutMemory &cut) {
  std::vector<int64_t> bytes(plan.stages.size());
  if (plan.device == "cuda") {
    bytes =
        connectionBytesOfStages(plan.device, plan.schedule.ranksOfStage, rankEdges(plan, cut.tied));
  }
  const std::vector<int64_t> shared = sharedScratch(plan, cut);
  for (const PlanStage &stage : plan.stages)
    bytes[stage.id] += reductionBytes(plan.device, stage) - shared[stage.id];
  return bytes;
}

void addMemory(Plan &plan, const CutMemory &cut, const RecomputeChoice &choice,
               const MemoryLimit &memory) {
  std::vector<StageDepth> depths = findDepths(plan);
  const std::vector<int64_t> besides = besideBytes(plan, cut);
  for (PlanStage &stage : plan.stages)
    stage.memoryBytes =
        cut.stages[stage.id].total(depths[stage.id], choice.must(stage.id)) + besides[stage.id];
  for (PlanStage &stage : plan.stages) {
    const StageMemory &sum = cut.stages[stage.id];
    StageDepth depth = depths[stage.id];
    int64_t beside = besides[stage.id];
    int64_t limit = allowedBytes(plan.topology, stage.ranks, memory);
    if (limit)
      limit = std::max<int64_t>(1, limit - heldByOthers(plan, stage));
    StageHolding held =
        holdStage(sum, depth, beside, limit, choice.must(stage.id), choice.may(stage.id));
    if (held.recompute)
      addRecomputation(stage, depth.sendsGradients);
    stage.memoryBytes = held.bytes;
    --depth.slots;
    stage.slotBytes = stage.memoryBytes - beside - sum.total(depth, held.recompute);
  }
}

bool fitsMemory(const Plan &plan, const MemoryLimit &memory) {
  return std::ranges::all_of(plan.stages, [&](const PlanStage &stage) {
    int64_t limit = allowedBytes(plan.topology, stage.ranks, memory);
    return !limit || stage.memoryBytes + heldByOthers(plan, stage) <= limit;
  });
}

void checkMemory(const Plan &plan, const CutMemory &cut, const MemoryLimit &memory) {
  auto limitOf = [&](const PlanStage &stage) {
    return allowedBytes(plan.topology, stage.ranks, memory);
  };
  auto needOf = [&](const PlanStage &stage) {
    return stage.memoryBytes + heldByOthers(plan, stage);
  };
  auto worst = std::ranges::max_element(
      plan.stages, {}, [&](const PlanStage &stage) { return needOf(stage) - limitOf(stage); });
  int64_t limit = limitOf(*worst), needed = needOf(*worst), recomputed = 0;
  if (!limit || needed <= limit)
    return;
  std::vector<StageDepth> depths = findDepths(plan);
  const std::vector<int64_t> besides = besideBytes(plan, cut);
  int slots = 0;
  bool recompute = true;
  std::string names;
  for (const PlanStage &stage : plan.stages) {
    if (stage.ranks != worst->ranks)
      continue;
    int64_t least = cut.stages[stage.id].total(depths[stage.id], true) + besides[stage.id];
    recomputed += std::min(stage.memoryBytes, least);
    slots = std::max(slots, plan.schedule.slots[stage.id]);
    recompute &= stage.recompute;
    names += (names.empty() ? "stage " : " and stage ") + std::to_string(stage.id);
  }
  std::string help = "more workers or a smaller microbatch";
  if (recomputed < needed)
    help =
        "--recompute auto (it would then need " + std::to_string(recomputed) + " bytes), " + help;
  if (slots > 1)
    help +=
        ", or a schedule that holds fewer than " + std::to_string(slots) + " microbatches there";
  const char *verb = names.find(" and ") == std::string::npos ? " needs " : " need ";
  const int64_t device = deviceBytes(plan.topology, worst->ranks, memory.memoryBytes);
  const std::string allowed =
      device == limit ? "" : ", of which sums may come to " + std::to_string(limit);
  throw MemoryError(names + verb + std::to_string(needed) + " bytes of memory and a device has " +
                    std::to_string(device) + " bytes" + allowed + ": " +
                    std::to_string(needed - limit) + " bytes too few" +
                    (recompute ? ", although it runs the forward pass again" : "") +
                    "; what would help: " + help);
}

std::vector<int64_t> memoryByRank(const Plan &plan) {
  std::vector<int64_t> bytes(plan.topology.workers());
  for (const PlanStage &stage : plan.stages)
    for (int rank : stage.ranks)
      bytes[rank] += stage.memoryBytes;
  return bytes;
}

} // namespace pdc
