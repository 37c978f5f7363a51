#pragma once

#include "compiler/plan/Plan.h"
#include "compiler/simulator/PlanSimulation.h"

#include <string>
#include <vector>

namespace pdc {

/// The ranks that drawings show: all where there are few, else the first replicas of each stage.
std::vector<int> ranksToDraw(const Plan &plan, size_t most);

/// One row per rank with its runs as bars, what it sends as lines below them.
std::string drawTimeline(const Plan &plan, const PlanSimulation &simulation);

/// One small chart per rank: bytes in use over time, below what was planned.
std::string drawMemory(const Plan &plan, const PlanSimulation &simulation);

/// The units as nodes coloured by stage, in layers from left to right, continued on the next line.
std::string drawGraph(const Plan &plan, const PlanGraph &graph);
/// How that drawing says what a unit takes.
const char *readGraph(const PlanGraph &graph);

/// Other ways to train on the same devices, and what keeps the plan from being faster, as tables.
std::string compareWays(const Plan &plan);
std::string compareBounds(const Plan &plan);

/// The style sheet.
std::string reportStyle();

} // namespace pdc
