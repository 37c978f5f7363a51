#pragma once

#include "compiler/plan/Plan.h"

#include <string>

namespace pdc {

/// What a reader of a plan wants to know first: whether pipelining pays, and which command is
/// faster where it does not. Lines; empty of one device.
std::string verdictOf(const Plan &plan);

} // namespace pdc
