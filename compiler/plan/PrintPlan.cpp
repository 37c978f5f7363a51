#include "compiler/plan/PlanJson.h"

#include "compiler/plan/Files.h"
#include "compiler/schedule/Text.h"

#include <algorithm>
#include <sstream>

namespace pdc {

using nlohmann::ordered_json;

namespace {

ordered_json sendsOf(const PlanStage &stage) {
  ordered_json sends = ordered_json::array();
  for (const PlanSend &send : stage.sends)
    sends.push_back({{"tensor", send.tensor}, {"to", send.to}, {"bytes", send.bytes}});
  return sends;
}

ordered_json toJson(const PlanStage &stage) {
  return {{"id", stage.id},
          {"ranks", stage.ranks},
          {"replicas", stage.replicas},
          {"nodes", stage.nodes},
          {"units", stage.units},
          {"forward_seconds", stage.forwardSeconds},
          {"backward_seconds", stage.backwardSeconds},
          {"backward_weight_seconds", stage.backwardWeightSeconds},
          {"update_seconds", stage.updateSeconds},
          {"slowdown", stage.slowdown},
          {"update_slowdown", stage.updateSlowdown},
          {"recompute", stage.recompute},
          {"parameter_bytes", stage.parameterBytes},
          {"gradient_bytes", stage.gradientBytes},
          {"state_bytes", stage.stateBytes},
          {"memory_bytes", stage.memoryBytes},
          {"slot_bytes", stage.slotBytes},
          {"library_bytes", stage.libraryBytes},
          {"in_flight", stage.inFlight},
          {"weight_versions", stage.weightVersions},
          {"sends", sendsOf(stage)}};
}

std::vector<std::string> nodesOf(const std::vector<const PlanStage *> &stages) {
  std::vector<std::string> nodes;
  for (const PlanStage *stage : stages)
    nodes.insert(nodes.end(), stage->nodes.begin(), stage->nodes.end());
  return nodes;
}

/// The stages that run on ranks [first, first + workers of the level), nested by levels. Components
/// of a level whose stages are the same are replicas.
ordered_json hierarchy(const Plan &plan, size_t level, int first) {
  int below = 1;
  for (size_t i = 0; i < level; ++i)
    below *= plan.topology.levels[i].workers;
  std::vector<const PlanStage *> previous;
  ordered_json list = ordered_json::array();
  for (int start = first; start < first + plan.topology.levels[level].workers * below;
       start += below) {
    std::vector<const PlanStage *> here;
    for (const PlanStage &stage : plan.stages)
      if (std::ranges::any_of(stage.ranks,
                              [&](int rank) { return rank >= start && rank < start + below; }))
        here.push_back(&stage);
    if (here.empty())
      continue;
    if (here == previous) {
      list.back()["replicas"] = list.back()["replicas"].get<int>() + 1;
      continue;
    }
    if (level)
      list.push_back({{"replicas", 1}, {"stages", hierarchy(plan, level - 1, start)}});
    else
      list.push_back({{"replicas", 1}, {"nodes", nodesOf(here)}});
    previous = here;
  }
  return list;
}

void addLink(ordered_json &json, const Link &link) {
  json["bandwidth"] = link.bytesPerSecond;
  json["latency"] = link.latencySeconds;
  if (link.sendBytesPerSecond > 0)
    json["send_bandwidth"] = link.sendBytesPerSecond;
  if (link.receiveBytesPerSecond > 0)
    json["receive_bandwidth"] = link.receiveBytesPerSecond;
}

ordered_json toJson(const Topology &topology) {
  ordered_json levels = ordered_json::array();
  for (const Level &level : topology.levels) {
    ordered_json &json = levels.emplace_back(ordered_json{{"workers", level.workers}});
    addLink(json, level.link);
    json["ports"] = level.ports;
  }
  ordered_json links = ordered_json::array();
  for (const OwnLink &own : topology.links)
    addLink(links.emplace_back(ordered_json{{"from", own.from}, {"to", own.to}}), own.link);
  ordered_json memory = topology.memoryBytes;
  if (!topology.memoryOfWorker.empty())
    memory = topology.memoryOfWorker;
  ordered_json json = {{"levels", levels},
                       {"links", links},
                       {"memory", memory},
                       {"device", topology.device},
                       {"cores", topology.cores}};
  if (topology.sumSeconds > 0)
    json["sum_seconds"] = topology.sumSeconds;
  if (!topology.assumption.empty())
    json["assumption"] = topology.assumption;
  return json;
}

ordered_json toJson(const PlanBounds &bounds) {
  return {{"work_seconds", bounds.work},
          {"balance_seconds", bounds.balance},
          {"bubble_seconds", bounds.bubble},
          {"links_seconds", bounds.links}};
}

ordered_json baselinesOf(const Plan &plan) {
  ordered_json list = ordered_json::array();
  for (const Baseline &baseline : plan.baselines)
    list.push_back({{"name", baseline.name},
                    {"seconds_per_minibatch", baseline.secondsPerMinibatch},
                    {"memory_bytes", baseline.memoryBytes},
                    {"recompute", baseline.recompute},
                    {"fits", baseline.fits},
                    {"planned", baseline.isPlanned}});
  return list;
}

ordered_json candidatesOf(const Plan &plan) {
  ordered_json list = ordered_json::array();
  for (const PlanCandidate &candidate : plan.candidates)
    list.push_back({{"name", candidate.name},
                    {"seconds_per_minibatch", candidate.secondsPerMinibatch},
                    {"refusal", candidate.refusal}});
  return list;
}

ordered_json toJson(const PlanHints &hints) {
  ordered_json helps = ordered_json::array();
  for (const PlanHelp &help : hints.helps)
    helps.push_back({{"change", help.change}, {"gain", help.gain}});
  return {{"bottleneck", hints.bottleneck}, {"helps", helps}};
}

ordered_json toJson(const PlanCommunicators &communicators) {
  const bool pairs = communicators.arrangement == Arrangement::pairs;
  ordered_json json = {{"arrangement", pairs ? "pairs" : "edges"},
                       {"count", communicators.count},
                       {"bytes", communicators.bytes}};
  if (communicators.stallOfPairs)
    json["stall_of_pairs"] = *communicators.stallOfPairs;
  return json;
}

ordered_json rowsOf(const Schedule &schedule) {
  ordered_json lines = ordered_json::array();
  if (schedule.ranks.empty())
    return lines;
  std::istringstream text(printSchedule(schedule));
  for (std::string line; std::getline(text, line);)
    lines.push_back(line);
  return lines;
}

ordered_json edgesOf(const Plan &plan) {
  ordered_json edges = ordered_json::array();
  for (const Edge &edge : plan.edges)
    edges.push_back({{"tensor", edge.tensor},
                     {"from", edge.fromStage},
                     {"to", edge.toStage},
                     {"producer", std::string(1, letter(edge.producer))},
                     {"consumer", std::string(1, letter(edge.consumer))},
                     {"bytes", edge.bytes}});
  return edges;
}

} // namespace

ordered_json hierarchyOf(const Plan &plan) {
  return plan.topology.levels.empty() ? ordered_json::array()
                                      : hierarchy(plan, plan.topology.levels.size() - 1, 0);
}

std::string printPlan(const Plan &plan) {
  ordered_json json = {
      {"model", plan.model},
      {"device", plan.device},
      {"schedule", plan.scheduleName},
      {"cost_model", plan.costModel},
      {"precision", toString(plan.precision)},
      {"exact", plan.exact},
      {"threads", plan.threads},
      {"minibatch", plan.minibatch},
      {"microbatches", plan.microbatches},
      {"microbatch_size", plan.microbatchSize},
      {"seconds_per_minibatch", plan.secondsPerMinibatch},
      {"data_parallel_seconds_per_minibatch", plan.dataParallelSecondsPerMinibatch},
      {"single_device_seconds_per_minibatch", plan.singleDeviceSecondsPerMinibatch},
      {"model_parallel_seconds_per_minibatch", plan.modelParallelSecondsPerMinibatch},
      {"bound_seconds_per_minibatch", plan.boundSecondsPerMinibatch},
      {"planner_seconds", plan.plannerSeconds}};
  json["bounds"] = toJson(plan.bounds);
  json["baselines"] = baselinesOf(plan);
  json["candidates"] = candidatesOf(plan);
  if (!plan.untried.empty())
    json["untried"] = plan.untried;
  json["hints"] = toJson(plan.hints);
  if (plan.communicators.count)
    json["communicators"] = toJson(plan.communicators);
  if (plan.libraryBytes)
    json["library_bytes"] = plan.libraryBytes;
  json["topology"] = toJson(plan.topology);
  json["hierarchy"] = hierarchyOf(plan);
  json["stages"] = ordered_json::array();
  for (const PlanStage &stage : plan.stages)
    json["stages"].push_back(toJson(stage));
  json["edges"] = edgesOf(plan);
  if (plan.schedule.weightRule == WeightRule::atEntry)
    json["vertical_sync"] = true;
  json["rows"] = rowsOf(plan.schedule);
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

} // namespace pdc
