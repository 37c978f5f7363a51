#pragma once

#include "compiler/onnx/Model.h"
#include "compiler/onnx/Protobuf.h"

namespace pdc {

/// The domain of Gradient and of ONNX's optimizers.
inline constexpr std::string_view trainingDomain = "ai.onnx.preview.training";

/// What ModelProto.training_info says besides its algorithm, which becomes a part of the graph.
struct TrainingInfo {
  std::map<std::string, std::string> updates; ///< state variable -> its value after a step
  std::set<std::string> inputs;               ///< of the algorithm
  std::set<std::string> outputs;              ///< of the graph and of the algorithm
  std::map<std::string, std::string> initialization; ///< state variable -> value of `initial`
  onnx::GraphProto initial;
};

/// Takes training_info out of the message and appends its algorithm to the graph, as the
/// specification concatenates them. Nothing where the file has none. Throws Error for more than one
/// algorithm and for what breaks the rules of the specification.
std::optional<TrainingInfo> takeTrainingInfo(onnx::ModelProto &model);

} // namespace pdc
