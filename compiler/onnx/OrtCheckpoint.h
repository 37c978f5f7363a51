#pragma once

#include "compiler/onnx/Model.h"

namespace pdc {

/// What a checkpoint of ONNX Runtime's training API holds (a FlatBuffers file, identifier "ODTC"). Elements
/// stay in the file, or in the one beside it, until they are asked for.
struct OrtCheckpoint {
  std::vector<Initializer> parameters; ///< trained and frozen ones
  std::set<std::string> trained;
  std::vector<double> learningRates; ///< of its optimizer groups; none where it has no optimizer state
  int64_t step = 0;
};

/// Throws Error for what is no such file, or a broken one.
OrtCheckpoint readOrtCheckpoint(const std::filesystem::path &path);

} // namespace pdc
