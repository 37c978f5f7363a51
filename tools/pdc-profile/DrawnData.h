#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <filesystem>
#include <string>
#include <vector>

namespace pdc {

/// Writes one NPY file per input of a level-1 module into `folder`: `samples` drawn samples, or
/// what all samples share. Floats lie in [-1, 1); integers are labels or rows of a table that the
/// graph has. Returns the texts for --data.
std::vector<std::string> writeDrawnData(mlir::ModuleOp module, int64_t samples,
                                        const std::filesystem::path &folder);

} // namespace pdc
