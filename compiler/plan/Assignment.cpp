#include "compiler/plan/Assignment.h"

#include "compiler/Error.h"
#include "compiler/plan/Fields.h"
#include "compiler/plan/Files.h"

#include <algorithm>
#include <set>

namespace pdc {

std::map<std::string, int> parseAssignment(std::string_view text, const std::string &file) {
  Fields top = parseFields(text, file);
  std::map<std::string, int> assignment;
  if (!top.has("stages"))
    for (const auto &[node, stage] : top.json().items())
      assignment[node] = static_cast<int>(top.integer(node, 0, kMostStages - 1));
  for (const Fields &stage : top.list("stages")) {
    int id = static_cast<int>(stage.integer("id", 0, kMostStages - 1));
    for (const std::string &node : stage.strings("nodes"))
      if (!assignment.emplace(node, id).second)
        stage.refuse("nodes", "node '" + node + "' is listed twice");
  }
  if (assignment.empty())
    throw Error(file +
                ": names no node, expected an object of node name to stage, or a plan.json whose "
                "stages list their nodes");
  return assignment;
}

bool isPlannedForOther(std::string_view text, const std::string &file, const PlanRequest &request) {
  const Fields top = parseFields(text, file);
  if (!top.has("stages"))
    return false;
  const std::string device = toDevice(top, request.device);
  return device != request.device || toPrecision(top, "precision", device) != request.precision;
}

std::vector<int> parseReplicas(std::string_view text, const std::string &file) {
  Fields top = parseFields(text, file);
  std::vector<int> replicas;
  std::set<std::vector<int>> seen;
  for (const Fields &stage : top.list("stages"))
    if (stage.has("ranks")) {
      const std::vector<int> ranks = stage.integers("ranks", 0, kMostStages);
      if (seen.insert(ranks).second)
        replicas.push_back(static_cast<int>(ranks.size()));
    }
  const bool several = std::ranges::any_of(replicas, [](int count) { return count > 1; });
  return several ? replicas : std::vector<int>();
}

namespace {

struct NodePlace {
  size_t unit;
  int stage = -1;
};

std::string quoted(const std::string &node, int stage) {
  return "node '" + node + "' (stage " + std::to_string(stage) + ")";
}

/// The node that speaks for a unit in errors.
const std::string &nameOf(const PlanUnit &unit) {
  return unit.nodes.empty() ? unit.name : unit.nodes.front();
}

std::vector<int> stagesByNode(const PlanGraph &graph,
                              const std::map<std::string, int> &assignment) {
  std::map<std::string, size_t> unitOfNode;
  for (size_t unit = 0; unit < graph.units.size(); ++unit)
    for (const std::string &node : graph.units[unit].nodes)
      unitOfNode[node] = unit;
  std::vector<int> stages(graph.units.size(), -1);
  std::vector<const std::string *> named(graph.units.size());
  for (const auto &[node, stage] : assignment) {
    auto found = unitOfNode.find(node);
    if (found == unitOfNode.end())
      throw Error("stages: the model has no node '" + node + "'");
    if (stage < 0 || stage >= kMostStages)
      throw Error("stages: " + quoted(node, stage) + ": expected a stage from 0 to " +
                  std::to_string(kMostStages - 1));
    const std::string &state = graph.units[found->second].sharedState;
    int &known = stages[found->second];
    const std::string *&first = named[found->second];
    if (known >= 0 && known != stage)
      throw Error("stages: " + quoted(*first, known) + " and " + quoted(node, stage) +
                  (state.empty() ? " are one kernel"
                                 : " use '" + state +
                                       "' or lie between its uses: running "
                                       "statistics belong to one stage") +
                  "; give both the same stage");
    known = stage;
    first = &node;
  }
  return stages;
}

void fillUnnamed(const PlanGraph &graph, std::vector<int> &stages) {
  std::vector<std::vector<int>> producers(stages.size());
  for (const PlanValue &value : graph.values)
    for (int consumer : value.consumers)
      producers[consumer].push_back(value.producer);
  for (size_t unit = 0; unit < stages.size(); ++unit) {
    if (stages[unit] >= 0)
      continue;
    stages[unit] = 0;
    for (int producer : producers[unit])
      stages[unit] = std::max(stages[unit], stages[producer]);
  }
}

} // namespace

std::vector<int> applyAssignment(const PlanGraph &graph,
                                 const std::map<std::string, int> &assignment) {
  std::vector<int> stages = stagesByNode(graph, assignment);
  fillUnnamed(graph, stages);
  for (const PlanValue &value : graph.values)
    for (int consumer : value.consumers)
      if (stages[consumer] < stages[value.producer])
        throw Error("stages: '" + value.name + "' would go backwards, from " +
                    quoted(nameOf(graph.units[value.producer]), stages[value.producer]) + " to " +
                    quoted(nameOf(graph.units[consumer]), stages[consumer]) +
                    "; values go to the same or a later stage");
  int count = *std::ranges::max_element(stages) + 1;
  for (int stage = 0; stage < count; ++stage)
    if (std::ranges::find(stages, stage) == stages.end())
      throw Error("stages: no node has stage " + std::to_string(stage) + " of 0 to " +
                  std::to_string(count - 1));
  return stages;
}

} // namespace pdc
