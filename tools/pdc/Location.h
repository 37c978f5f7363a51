#pragma once

#include "codegen/Project.h"

namespace pdc {

/// Where this pdc's runtime is: the package beside an installed pdc, else the sources it was built
/// from.
RuntimeLocation runtimeLocation();

} // namespace pdc
