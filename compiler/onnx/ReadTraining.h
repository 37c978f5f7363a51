#pragma once

#include "compiler/onnx/FlattenFunctions.h"
#include "compiler/onnx/TrainingInfo.h"

namespace pdc {

/// What the algorithm of training_info does, in pdc's own words: which value is minimised, which
/// initializers an optimizer updates, and how. `model` has the initializers and inputs already.
/// Throws Error, naming the node, for an algorithm that these words cannot say.
ModelTraining readTraining(const TrainingInfo &info, const std::vector<FlatNode> &nodes,
                           const Model &model);

/// Leaves of the nodes those that these values depend on.
void keepAncestors(std::vector<FlatNode> &nodes, std::set<std::string> values);

} // namespace pdc
