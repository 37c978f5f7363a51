#pragma once

#include "compiler/onnx/Model.h"

namespace pdc {

/// Writes the model's file once more, with the stages of the partition as annotations: IR 11's
/// pipeline_stage, and beside it metadata that viewers show. A call of a function has the stage of
/// its result. Throws Error.
void writeAnnotated(const std::filesystem::path &from, const Model &model,
                    const ModelPartition &partition, const std::filesystem::path &to);

} // namespace pdc
