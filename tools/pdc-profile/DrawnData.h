#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <filesystem>
#include <string>
#include <vector>

namespace pdc {

/// Writes one NPY file of `samples` drawn samples per input of a level-1 module into `folder`.
/// Floats lie in [-1, 1); integers are labels or rows of a table that the graph has. Returns the
/// texts for --data.
std::vector<std::string> writeDrawnData(mlir::ModuleOp module, int64_t samples,
                                        const std::filesystem::path &folder);

} // namespace pdc
