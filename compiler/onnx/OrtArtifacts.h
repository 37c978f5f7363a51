#pragma once

#include "compiler/onnx/Model.h"
#include "compiler/onnx/Protobuf.h"

namespace pdc {

/// ONNX Runtime's training artifacts, of which the forward graph, the loss, the trained parameters and the
/// optimizer are taken; the gradients in them are left out, since pdc makes its own.
struct OrtArtifacts {
  std::vector<Initializer> parameters;
  ModelTraining training;
};

/// Nothing where the graph accumulates no gradients in ONNX Runtime's way. The checkpoint and the
/// optimizer lie beside the file `model` (`checkpoint`, `optimizer_model.onnx`, with its prefix)
/// unless `files` says otherwise. Takes accumulators and their outputs out of the graph. Throws
/// Error, also where `files` names some and the graph is none of these.
std::optional<OrtArtifacts> takeOrtArtifacts(onnx::GraphProto &graph,
                                             const std::filesystem::path &model,
                                             const ArtifactFiles &files);

} // namespace pdc
