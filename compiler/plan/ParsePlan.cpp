#include "compiler/plan/Files.h"

#include "compiler/Error.h"
#include "compiler/cost/ClosedForm.h"
#include "compiler/plan/Fields.h"
#include "compiler/plan/HierarchyPlan.h"
#include "compiler/plan/PlanJson.h"
#include "compiler/schedule/Rhythm.h"
#include "compiler/schedule/RunCounts.h"
#include "compiler/schedule/Text.h"

#include <map>
#include <set>
#include <sstream>

namespace pdc {

namespace {

constexpr int64_t kMostMicrobatches = 1 << 20;
/// Sums over all stages still fit.
constexpr int64_t kMostBytes = int64_t(1) << 46;
/// Of all ranks together; above any schedule that is worth its overhead.
constexpr int64_t kMostTasks = 1 << 24;

std::string phaseText(Phase phase) { return std::string(1, letter(phase)); }

PlanStage toStage(const Fields &fields, int64_t position) {
  PlanStage stage;
  fields.expect("ranks");
  fields.expect("nodes");
  stage.id = static_cast<int>(fields.integer("id", position, position));
  stage.ranks = fields.integers("ranks", 0, kMostStages - 1);
  stage.replicas = static_cast<int>(fields.integer("replicas", 1, kMostStages, 1));
  if (stage.ranks.size() != static_cast<size_t>(stage.replicas))
    fields.refuse("ranks", "expected one for each of " + std::to_string(stage.replicas) +
                               " replicas, found " + std::to_string(stage.ranks.size()));
  stage.nodes = fields.strings("nodes");
  stage.units = fields.strings("units");
  stage.forwardSeconds = fields.number("forward_seconds", 0);
  stage.backwardSeconds = fields.number("backward_seconds", 0);
  stage.backwardWeightSeconds = fields.number("backward_weight_seconds", 0);
  stage.updateSeconds = fields.number("update_seconds", 0);
  stage.slowdown = toSlowdown(fields, "slowdown");
  stage.updateSlowdown = toSlowdown(fields, "update_slowdown");
  stage.recompute = fields.boolean("recompute", false);
  stage.parameterBytes = fields.integer("parameter_bytes", 0, INT64_MAX, 0);
  stage.gradientBytes = fields.integer("gradient_bytes", 0, kMostBytes, 0);
  stage.stateBytes = fields.integer("state_bytes", 0, kMostBytes, 0);
  stage.memoryBytes = fields.integer("memory_bytes", 0, kMostBytes, 0);
  stage.slotBytes = fields.integer("slot_bytes", 0, INT64_MAX, 0);
  stage.libraryBytes = fields.integer("library_bytes", 0, kMostBytes, 0);
  stage.inFlight = static_cast<int>(fields.integer("in_flight", 0, INT32_MAX, 1));
  stage.weightVersions = static_cast<int>(fields.integer("weight_versions", 1, INT32_MAX, 1));
  for (const Fields &send : fields.list("sends"))
    stage.sends.push_back({send.string("tensor"),
                           static_cast<int>(send.integer("to", 0, kMostStages - 1)),
                           send.integer("bytes", 0, kMostBytes)});
  return stage;
}

Phase toPhase(const Fields &fields, const std::string &field) {
  for (Phase phase : {Phase::forward, Phase::backward, Phase::evaluate})
    if (fields.string(field) == phaseText(phase))
      return phase;
  fields.refuse(field, "expected F, B or E, found " + fields.string(field));
}

Edge toEdge(const Fields &fields, int id, int64_t stages) {
  Edge edge;
  edge.id = id;
  edge.tensor = fields.string("tensor");
  edge.fromStage = static_cast<int>(fields.integer("from", 0, stages - 1));
  edge.toStage = static_cast<int>(fields.integer("to", 0, stages - 1));
  edge.producer = toPhase(fields, "producer");
  edge.consumer = toPhase(fields, "consumer");
  edge.bytes = fields.integer("bytes", 0, kMostBytes);
  if (edge.fromStage == edge.toStage)
    fields.refuse("to",
                  "expected another stage than 'from', found " + std::to_string(edge.toStage));
  return edge;
}

void readHead(const Fields &top, Plan &plan) {
  plan.model = top.string("model");
  plan.device = toDevice(top);
  plan.scheduleName = top.string("schedule");
  plan.costModel = top.string("cost_model");
  plan.precision = toPrecision(top, "precision", plan.device);
  plan.exact = top.boolean("exact", false);
  plan.threads = static_cast<int>(top.integer("threads", 1, 4096, 1));
  plan.minibatch = top.integer("minibatch", 0, INT64_MAX);
  plan.microbatches = top.integer("microbatches", 1, kMostMicrobatches);
  plan.microbatchSize =
      top.integer("microbatch_size", 0, INT32_MAX, plan.minibatch / plan.microbatches);
  plan.secondsPerMinibatch = top.number("seconds_per_minibatch");
  plan.dataParallelSecondsPerMinibatch = top.number("data_parallel_seconds_per_minibatch", 0);
  plan.singleDeviceSecondsPerMinibatch = top.number("single_device_seconds_per_minibatch", 0);
  plan.modelParallelSecondsPerMinibatch = top.number("model_parallel_seconds_per_minibatch", 0);
  plan.boundSecondsPerMinibatch = top.number("bound_seconds_per_minibatch", 0);
  plan.plannerSeconds = top.number("planner_seconds", 0);
}

PlanBounds toBounds(const Fields &fields) {
  return {fields.number("work_seconds", 0), fields.number("balance_seconds", 0),
          fields.number("bubble_seconds", 0), fields.number("links_seconds", 0)};
}

Baseline toBaseline(const Fields &fields) {
  return {fields.string("name"),
          fields.number("seconds_per_minibatch"),
          fields.integer("memory_bytes", 0, INT64_MAX, 0),
          fields.boolean("recompute", false),
          fields.boolean("fits", true),
          fields.boolean("planned", false)};
}

PlanCandidate toCandidate(const Fields &fields) {
  return {fields.string("name"), fields.number("seconds_per_minibatch", 0),
          fields.string("refusal", "")};
}

PlanHints toHints(const Fields &fields) {
  PlanHints hints{fields.string("bottleneck", ""), {}};
  for (const Fields &help : fields.list("helps"))
    hints.helps.push_back({help.string("change"), help.number("gain")});
  return hints;
}

PlanCommunicators toCommunicators(const Fields &fields) {
  PlanCommunicators communicators;
  const std::string arrangement = fields.string("arrangement");
  if (arrangement != "pairs" && arrangement != "edges")
    fields.refuse("arrangement", "expected pairs or edges, found '" + arrangement + "'");
  if (arrangement == "edges")
    communicators.arrangement = Arrangement::edges;
  communicators.count = static_cast<int>(fields.integer("count", 0, INT32_MAX));
  communicators.bytes = fields.integer("bytes", 0, INT64_MAX);
  if (fields.has("stall_of_pairs"))
    communicators.stallOfPairs = fields.number("stall_of_pairs");
  return communicators;
}

std::string at(const char *list, size_t position, const char *field) {
  return std::string(list) + "[" + std::to_string(position) + "]." + field;
}

/// Each node and unit stands in one stage.
void checkNames(const Fields &top, const Plan &plan, const char *field,
                std::vector<std::string> PlanStage::*names) {
  std::map<std::string, size_t> known;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (const std::string &name : plan.stages[stage].*names)
      if (auto [first, isNew] = known.emplace(name, stage); !isNew)
        top.refuse(at("stages", stage, field), "'" + name +
                                                   "' is listed twice, expected once; it "
                                                   "stands in stage " +
                                                   std::to_string(first->second) + " already");
}

/// Ranks are numbered from 0 without gaps and there is a worker for each.
void checkRanks(const Fields &top, const Plan &plan) {
  std::set<int> ranks;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const std::vector<int> &own = plan.stages[stage].ranks;
    if (std::set<int>(own.begin(), own.end()).size() != own.size())
      top.refuse(at("stages", stage, "ranks"), "expected different ranks, found one twice");
    ranks.insert(own.begin(), own.end());
  }
  int count = static_cast<int>(ranks.size());
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (int rank : plan.stages[stage].ranks)
      if (rank >= count)
        top.refuse(at("stages", stage, "ranks"),
                   "expected ranks from 0 to " + std::to_string(count - 1) +
                       ", since the stages name " + std::to_string(count) + ", found " +
                       std::to_string(rank));
  if (!plan.topology.levels.empty() && plan.topology.workers() < count)
    top.refuse("topology.levels", "expected at least " + std::to_string(count) +
                                      " workers, one for each rank, found " +
                                      std::to_string(plan.topology.workers()));
}

void checkSends(const Fields &top, const Plan &plan) {
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (const PlanSend &send : plan.stages[stage].sends)
      if (send.to == plan.stages[stage].id || send.to >= static_cast<int>(plan.stages.size()))
        top.refuse(at("stages", stage, "sends"), "expected another stage of 0 to " +
                                                     std::to_string(plan.stages.size() - 1) +
                                                     " as 'to', found " + std::to_string(send.to));
}

/// PipeDream's models call a microbatch a minibatch, whatever the replicas; programs do not.
void checkMinibatch(const Fields &top, const Plan &plan) {
  bool steady = isClosedForm(plan.costModel) && top.strings("rows").empty();
  int64_t replicas = steady ? 1 : plan.stages[0].replicas;
  if (plan.minibatch == plan.microbatches * replicas * plan.microbatchSize)
    return;
  std::string factor = replicas > 1 ? " x replicas of stage 0" : "";
  std::string found = replicas > 1 ? " x " + std::to_string(replicas) : "";
  top.refuse("minibatch", "expected microbatches" + factor + " x microbatch_size, " +
                              std::to_string(plan.microbatches) + found + " x " +
                              std::to_string(plan.microbatchSize) + ", found " +
                              std::to_string(plan.minibatch));
}

/// What follows from the rest of the file says the same, where it is there.
void checkDerived(const Fields &top, const std::vector<Fields> &stages, const Plan &plan) {
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    if (stages[stage].has("weight_versions"))
      stages[stage].integer("weight_versions", plan.schedule.versions[stage],
                            plan.schedule.versions[stage]);
    stages[stage].integer("in_flight", 0, plan.schedule.slots[stage], 1);
  }
  const bool atEntry = plan.schedule.weightRule == WeightRule::atEntry;
  if (top.has("vertical_sync") && top.boolean("vertical_sync", false) != atEntry)
    top.refuse("vertical_sync", atEntry ? "expected true as in rows, found false"
                                        : "expected false as in schedule and rows, found true");
  if (top.has("hierarchy") && !plan.topology.levels.empty() &&
      top.json()["hierarchy"] != nlohmann::json(hierarchyOf(plan)))
    top.refuse("hierarchy", "expected " + hierarchyOf(plan).dump() +
                                " as stages and topology say, found another one");
}

Pipeline plannedPipeline(const Plan &plan) {
  Pipeline pipeline{
      static_cast<int>(plan.stages.size()), {}, plan.microbatches * plan.stages[0].replicas};
  for (const PlanStage &stage : plan.stages)
    pipeline.ranksOfStage.push_back(stage.ranks);
  pipeline.verticalSync = plan.schedule.weightRule == WeightRule::atEntry;
  return pipeline;
}

Schedule rowsByName(const Fields &top, const std::string &name, const Pipeline &pipeline) {
  try {
    return findSchedule(name).make(pipeline);
  } catch (const Error &error) {
    top.refuse("schedule", error.what());
  }
}

std::string listOf(const std::vector<int> &ranks) {
  std::string text;
  for (int rank : ranks)
    text += (text.empty() ? "" : ",") + std::to_string(rank);
  return text;
}

/// The schedule of a plan that needs no rows; false where they are made from its name.
bool readUnwritten(Plan &plan) {
  Pipeline pipeline = plannedPipeline(plan);
  if (std::ranges::find(schedules(), plan.scheduleName, &ScheduleKind::name) == schedules().end())
    return false;
  bool replicated = plan.stages.size() < static_cast<size_t>(pipeline.ranks());
  std::optional<Schedule> unwritten;
  if (!isClosedForm(plan.costModel) && runsToWrite(plan.scheduleName, pipeline) > kMostWrittenRuns)
    unwritten = makeUnwritten(plan.scheduleName, pipeline);
  if (unwritten) {
    plan.schedule = *unwritten;
    assignUnwrittenSlots(plan.schedule, plan.edges);
  } else if (replicated && findSchedule(plan.scheduleName).placement == StagePlacement::straight) {
    plan.schedule = steadySchedule(plan);
  }
  return !plan.schedule.ranksOfStage.empty();
}

/// Rows are proven again: a file is a file.
void readSchedule(const Fields &top, Plan &plan, const std::string &file) {
  std::string text;
  for (const std::string &line : top.strings("rows"))
    text += line + "\n";
  Schedule rows;
  int64_t written = plannedPipeline(plan).microbatches;
  if (written * static_cast<int64_t>(plan.stages.size()) > kMostTasks)
    top.refuse("microbatches", "expected at most " + std::to_string(kMostTasks) +
                                   " over all stages, found " + std::to_string(written) +
                                   " for each of " + std::to_string(plan.stages.size()));
  if (text.empty() && readUnwritten(plan))
    return;
  if (text.empty()) {
    rows = rowsByName(top, plan.scheduleName, plannedPipeline(plan));
  } else {
    rows = parseSchedule(text, file + ": rows");
  }
  if (rows.ranksOfStage.size() != plan.stages.size())
    top.refuse("rows", "expected " + std::to_string(plan.stages.size()) + " stages, found " +
                           std::to_string(rows.stages()));
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    if (rows.ranksOfStage[stage] != plan.stages[stage].ranks)
      top.refuse("rows", "stage " + std::to_string(stage) + " stands on rank " +
                             listOf(rows.ranksOfStage[stage]) + ", expected rank " +
                             listOf(plan.stages[stage].ranks) + " as in stages");
  if (rows.name != plan.scheduleName)
    top.refuse("schedule",
               "expected '" + rows.name + "' as in rows, found '" + plan.scheduleName + "'");
  int64_t microbatches = rows.sumsMicrobatches() ? plan.microbatches * plan.stages[0].replicas : 1;
  if (rows.microbatches != microbatches)
    top.refuse("rows", "hold " + std::to_string(rows.microbatches) + " microbatches, expected " +
                           std::to_string(microbatches));
  try {
    if (!text.empty())
      checkRowsOfFile(rows, plan.edges);
    plan.schedule = completeSchedule(rows, plan.edges);
  } catch (const Error &error) {
    top.refuse("rows", error.what());
  }
}

} // namespace

Plan parsePlan(std::string_view text, const std::string &file) {
  Fields top = parseFields(text, file);
  Plan plan;
  readHead(top, plan);
  std::vector<Fields> stages = top.list("stages");
  for (const Fields &stage : stages)
    plan.stages.push_back(toStage(stage, static_cast<int64_t>(plan.stages.size())));
  if (plan.stages.empty())
    top.refuse("stages", "expected at least one stage");
  for (const Fields &edge : top.list("edges"))
    plan.edges.push_back(toEdge(edge, static_cast<int>(plan.edges.size()),
                                static_cast<int64_t>(plan.stages.size())));
  if (top.has("bounds"))
    plan.bounds = toBounds(top.object("bounds"));
  for (const Fields &baseline : top.list("baselines"))
    plan.baselines.push_back(toBaseline(baseline));
  for (const Fields &candidate : top.list("candidates"))
    plan.candidates.push_back(toCandidate(candidate));
  plan.untried = top.string("untried", "");
  if (top.has("hints"))
    plan.hints = toHints(top.object("hints"));
  if (top.has("communicators"))
    plan.communicators = toCommunicators(top.object("communicators"));
  plan.libraryBytes = top.integer("library_bytes", 0, kMostBytes, 0);
  if (top.boolean("vertical_sync", false)) // rows say it, too, where there are some
    plan.schedule.weightRule = WeightRule::atEntry;
  if (top.has("topology"))
    plan.topology = toTopology(top.object("topology"));
  checkMinibatch(top, plan);
  checkNames(top, plan, "nodes", &PlanStage::nodes);
  checkNames(top, plan, "units", &PlanStage::units);
  checkRanks(top, plan);
  checkSends(top, plan);
  readSchedule(top, plan, file);
  checkDerived(top, stages, plan);
  return plan;
}

} // namespace pdc
