#pragma once

#include "compiler/plan/Plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pdc {

/// All of the text as a number; nothing where it is none.
std::optional<int64_t> wholeNumber(std::string_view text);

/// What `--stages` says, for `request.workers`: `3-1`, replicas per stage, or a file of node to
/// stage, JSON or a plan.json, whose replicas are taken too. Throws UsageError, and Error for what
/// is wrong with a file.
void takeStages(const std::string &text, PlanRequest &request);

} // namespace pdc
