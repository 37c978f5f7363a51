#pragma once

#include "compiler/ir/Pdc.h"

#include <string>

namespace pdc {

/// The values of all constants that the programs of a module read, as a safetensors file keyed by
/// the names of their memories; booleans are bytes. Empty where there are none.
std::string constantsFile(mlir::ModuleOp module);

} // namespace pdc
