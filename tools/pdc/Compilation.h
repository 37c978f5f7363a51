#pragma once

#include "tools/pdc/Options.h"

#include <ostream>

namespace pdc {

/// The walk of the data from a model to the sources of its stages, with what is asked for printed
/// to `out` and progress to `progress`. Throws Error.
void compile(const Options &options, std::ostream &out, std::ostream &progress);

} // namespace pdc
