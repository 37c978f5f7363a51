#pragma once

#include "compiler/onnx/Model.h"

namespace pdc {

/// Where a tensor lies in a safetensors file; `offset` counts from the start of the file.
struct StoredTensor {
  TensorType type;
  uint64_t offset = 0;
  uint64_t length = 0;
};

/// The tensors of a safetensors file by name. Every entry was checked against the file's size.
std::map<std::string, StoredTensor> readSafetensors(const std::filesystem::path &path);

/// The bytes of one of its tensors.
std::string readBytes(const std::filesystem::path &path, const StoredTensor &tensor);

/// Writes the model's floating-point initializers that are stored (not filled) under their ONNX
/// names, and the optimizer states that it has, in order of the names. Written beside `path` and
/// renamed, so a reader never sees half.
void writeWeights(const Model &model, const std::filesystem::path &path);

} // namespace pdc
