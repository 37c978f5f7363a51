#pragma once

#include "compiler/onnx/Model.h"

#include <filesystem>
#include <string>
#include <vector>

namespace pdc::test {

struct NamedTensor {
  std::string name;
  Tensor value;
};

/// What pdc makes of one of ONNX's tests: a program of one rank and one stage whose forward pass is
/// the model.
struct CompiledTest {
  /// `stage_0.cpp`; empty where the compiler computes every output by itself.
  std::string source;
  /// constants.safetensors; empty where there are none.
  std::string constants;
  bool readsWeights = false;
  Model model;
  /// What the program is given, and what it must compute, by the names of its memories.
  std::vector<NamedTensor> inputs, outputs;
  /// Outputs that the compiler knows and that are wrong.
  std::vector<std::string> wrong;
};

/// Import, all passes and the printer of sources, as pdc runs them. Inputs that must be known at
/// compile time (shapes, axes) become initializers first. Throws Error for what pdc refuses.
CompiledTest compileTest(const std::filesystem::path &test);

/// Whether two tensors agree as ONNX's own runner of these tests wants it; otherwise what differs.
std::string difference(const Tensor &found, const Tensor &expected);

} // namespace pdc::test
