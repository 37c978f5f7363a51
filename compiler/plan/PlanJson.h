#pragma once

#include "compiler/plan/Plan.h"

#include <nlohmann/json.hpp>

namespace pdc {

/// plan.json's `hierarchy`: the stages nested by the levels of the topology. Components of a level
/// whose stages are the same are replicas.
nlohmann::ordered_json hierarchyOf(const Plan &plan);

} // namespace pdc
