#pragma once

#include "compiler/plan/Plan.h"
#include "compiler/schedule/Schedules.h"

#include <memory>

namespace pdc {

/// The plan that a pass applies: the one in memory, else the file's, else null.
std::shared_ptr<const Plan> choosePlan(std::shared_ptr<const Plan> plan, const std::string &file);

/// The ranks of each stage, its replicas: the plan's, else one stage per rank.
std::vector<std::vector<int>> ranksOfStages(const Plan *plan, int stages);

/// What a plan's schedule is made for.
Pipeline pipelineOf(const Plan &plan, int stages);

/// The compute rows of a schedule that may hold transfers: those are placed for the edges that the
/// programs really have.
Schedule withoutTransfers(Schedule schedule);

/// The compute rows of a plan: its own, else those that its schedule's name stands for.
Schedule computeRows(const Plan &plan, const Pipeline &pipeline);

} // namespace pdc
