#pragma once

#include "compiler/plan/Partition.h"

namespace pdc {

/// Where ranks have several stages, what counts is the sum of each rank's stages, not the slowest
/// stage: moves the cuts of a chain, one alone or neighbours together, as long as the rank with
/// most to do has less, or of equal ones the others have more even shares. `stageOfUnit` fits the
/// memory; so does the result.
std::vector<int> balanceRanks(const PlanGraph &graph, const ChainRequest &request,
                              const std::vector<int> &stageOfUnit);

} // namespace pdc
