#pragma once

#include "compiler/simulator/RunComparison.h"

#include <iosfwd>
#include <string>

namespace pdc {

/// What took longer or shorter than planned, for people.
void describeTimes(const RunComparison &comparison, std::ostream &out);

/// The same as a JSON object.
std::string timesJson(const RunComparison &comparison);

} // namespace pdc
