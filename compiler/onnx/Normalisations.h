#pragma once

#include "compiler/onnx/Model.h"

namespace pdc {

/// Names of a model's BatchNormalization nodes, by what training normalises with.
struct Normalisations {
  std::set<std::string> active; ///< the statistics of each microbatch, and keep the running ones
  std::set<std::string> frozen; ///< the running ones, which stay as they are
  std::set<std::string> given;  ///< what the network computes of its inputs
  /// Whether the file says which train. Where it says of none that it does, it was exported for
  /// inference or drops the attribute, and all of them train.
  bool areTold = false;
};

/// Whether a normalisation's running mean is a tensor of the file, not computed.
bool keepsStatistics(const Model &model, const ModelNode &node);

/// As the file says, and frozen beside those where one of the patterns (`--freeze`) matches the
/// running mean. Where it says of none: what is computed of the very batch, as PyTorch's newer
/// exporter writes a module without running statistics, is the batch's.
Normalisations chooseNormalisations(const Model &model, const std::vector<std::string> &freeze);

/// The frozen and those with given statistics.
std::set<std::string> untrainedNormalisations(const Model &model,
                                              const std::vector<std::string> &freeze);

/// Whether given statistics take no gradient, though the file may not say so: PyTorch's
/// F.batch_norm refuses those that would, and files lose what detached them.
bool areGivenDetached(const Model &model);

/// Means and variances that BatchNormalization keeps, but not those of nodes in `frozen` alone.
std::set<std::string> runningStatistics(const Model &model,
                                        const std::set<std::string> &frozen = {});

/// Gives each normalisation that trains running statistics of its own, where an optimizer of the
/// file made them one with another's, or with weights, since all begin as zeros or ones. A module
/// that is used several times has one, as it has one scale.
void separateStatistics(Model &model);

} // namespace pdc
