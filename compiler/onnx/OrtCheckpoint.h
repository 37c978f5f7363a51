#pragma once

#include "compiler/onnx/Model.h"

namespace pdc {

/// What a checkpoint of ONNX Runtime's training API holds (a FlatBuffers file, identifier "ODTC"). Elements
/// stay in the file, or in the one beside it, until they are asked for.
struct OrtCheckpoint {
  std::vector<Initializer> parameters; ///< trained and frozen ones
  std::set<std::string> trained;
  /// By trained parameter the optimizer's states, in its order: AdamW's are the averages of the
  /// gradient and of its square.
  std::map<std::string, std::vector<Initializer>> states;
  std::vector<double> learningRates; ///< of its optimizer groups; none where it has no optimizer state
  std::vector<int64_t> steps;        ///< of its optimizer groups: the updates before it

  bool hasStates() const;
  /// Of one of its optimizer groups. Throws Error for what is no number of updates.
  void takeStep(double said);
};

/// Throws Error for what is no such file or folder, or a broken one.
OrtCheckpoint readOrtCheckpoint(const std::filesystem::path &path);

/// Releases before 1.15 wrote a folder of sequences of tensors.
OrtCheckpoint readOrtCheckpointFolder(const std::filesystem::path &folder);

} // namespace pdc
