#pragma once

#include "compiler/plan/Plan.h"

#include <memory>

namespace pdc {

/// The plan that a pass applies: the one in memory, else the file's, else null.
std::shared_ptr<const Plan> choosePlan(std::shared_ptr<const Plan> plan, const std::string &file);

/// The rank of each stage: the plan's, else one stage per rank.
std::vector<int> ranksOfStages(const Plan *plan, int stages);

} // namespace pdc
