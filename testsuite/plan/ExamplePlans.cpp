#include "testsuite/plan/ExamplePlans.h"

#include "compiler/plan/Profile.h"

#include <algorithm>
#include <set>

namespace pdc {

PlanGraph chainGraph(const std::vector<double> &forwardSeconds) {
  PlanGraph graph;
  for (size_t i = 0; i < forwardSeconds.size(); ++i) {
    std::string number = std::to_string(i);
    double seconds = forwardSeconds[i];
    graph.units.push_back(
        {"u" + number, {"n" + number}, seconds, seconds, seconds, 0, 100, 100, 50, 10, 7, 5});
    if (i)
      graph.values.push_back(
          {"v" + std::to_string(i - 1), static_cast<int>(i) - 1, {static_cast<int>(i)}, 1000});
  }
  renewGradients(graph);
  return graph;
}

PlanGraph randomGraph(int units, std::mt19937 &random) {
  auto draw = [&](int most) { return static_cast<int>(random() % (most + 1)); };
  PlanGraph graph;
  for (int i = 0; i < units; ++i) {
    PlanUnit unit;
    unit.name = "u" + std::to_string(i);
    unit.nodes = {"n" + std::to_string(i)};
    unit.forwardSeconds = draw(9);
    unit.backwardInputSeconds = draw(9);
    unit.backwardWeightSeconds = draw(9);
    unit.updateSeconds = draw(4);
    unit.parameterBytes = draw(100);
    unit.gradientBytes = draw(100);
    unit.optimizerBytes = draw(100);
    unit.stashBytes = draw(100);
    unit.halfwayBytes = draw(100);
    unit.workspaceBytes = draw(100);
    unit.inputBytes = draw(20);
    unit.inputStashBytes = 2 * unit.stashBytes / 3;
    graph.units.push_back(unit);
  }
  for (int i = 0; i + 1 < units; ++i) {
    std::set<int> consumers = {i + 1};
    while (draw(2) == 0)
      consumers.insert(i + 1 + draw(units - 2 - i));
    graph.values.push_back(
        {"v" + std::to_string(i), i, {consumers.begin(), consumers.end()}, draw(50)});
    PlanUnit &unit = graph.units[i];
    PlanValue &value = graph.values.back();
    const int freedAt = std::min(i + i % 3, units - 1);
    graph.units[freedAt].freedStashBytes += unit.inputStashBytes;
    if (value.bytes <= unit.inputStashBytes)
      value.freedAt = freedAt;
    value.isStashed = value.freedAt >= 0 || value.bytes <= unit.stashBytes - unit.inputStashBytes;
    if (draw(3) > 0)
      addGradientsOf(graph.values.back(), graph);
  }
  setTemporaries(graph);
  return graph;
}

void addPassingGradients(PlanGraph &graph, std::mt19937 &random) {
  auto draw = [&](int most) { return static_cast<int>(random() % (most + 1)); };
  for (int unit = 1; unit < static_cast<int>(graph.units.size()); ++unit) {
    if (draw(3) > 0)
      continue;
    std::set<int> earlier = {draw(unit - 1)};
    while (draw(1) == 0)
      earlier.insert(draw(unit - 1));
    graph.gradients.push_back(
        {"g" + std::to_string(unit), unit, {earlier.begin(), earlier.end()}, draw(50)});
  }
  setTemporaries(graph);
}

void renewGradients(PlanGraph &graph) {
  graph.gradients.clear();
  for (const PlanValue &value : graph.values)
    addGradientsOf(value, graph);
  setTemporaries(graph);
}

PlanRequest automatic(int workers, int64_t microbatches, double bandwidth) {
  PlanRequest request;
  request.workers = workers;
  request.microbatches = microbatches;
  request.topology = Topology{{{workers, {bandwidth, 0}}}, 0, "cpu"};
  request.microbatchSize = 4;
  return request;
}

PlanRequest named(PlanRequest request, const char *schedule) {
  request.schedule = schedule;
  request.openReplicas = false;
  return request;
}

bool hasTried(const Plan &plan, const std::string &part) {
  return std::ranges::any_of(plan.candidates, [&](const PlanCandidate &tried) {
    return tried.name.find(part) != std::string::npos;
  });
}

} // namespace pdc
