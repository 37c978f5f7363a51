#pragma once

#include "compiler/operators/Tensor.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// ONNX's own tests: a folder each, with a model, its inputs and the outputs that it must have
/// (Debian's libonnx-testdata).
namespace pdc::test {

/// The folder of a kind ("node", "pytorch-converted"); empty where the package is not installed.
std::filesystem::path nodeDataFolder(const std::string &kind);

/// Why pdc does something else on purpose.
std::optional<std::string> differsOnPurpose(const std::string &test);

/// The tensors of `input_0.pb`, `input_1.pb` ... or `output_0.pb` ...; throws Error.
std::vector<Tensor> readTensorFiles(const std::filesystem::path &test, const std::string &prefix);

} // namespace pdc::test
