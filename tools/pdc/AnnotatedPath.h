#pragma once

#include "tools/pdc/Options.h"

namespace pdc {

/// Throws pdc::Error unless --annotated can be written where it says. Judged before any work, since
/// the file is written last of all; folders of the sources are made before.
void checkAnnotatedPath(const Options &options);

} // namespace pdc
