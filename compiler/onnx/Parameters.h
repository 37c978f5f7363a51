#pragma once

#include "compiler/onnx/Loss.h"

namespace pdc {

/// Names of initializers, or shell patterns (`*`, `?`, `[...]`) over them, as `--train` and
/// `--freeze` take.
struct ParameterPatterns {
  std::vector<std::string> train;
  std::vector<std::string> freeze;
};

/// The initializers that training changes: those that `train` patterns match. Without patterns, and
/// beside those that begin with a plus: those that the file's
/// training_info updates, else those that the exporter says were parameters of its network and what
/// it folded of them; of all others floating-point initializers that reach the loss through a
/// weight operand, except running statistics, what stands in the file as a Constant node, single
/// numbers that only arithmetic reads, and names of masks and rotary tables; `freeze` takes away
/// from any. Throws for a pattern that matches nothing, for what the file trains but the loss does
/// not read, and when nothing is left to train.
std::set<std::string> chooseParameters(const Model &model, const Loss &loss,
                                       const ParameterPatterns &patterns);

/// Floating-point initializers; throws where the pattern matches none of any type.
std::set<std::string> initializersMatching(const Model &model, const std::string &pattern);

/// Initializers that stand where weights do and that no pattern and no training_info leaves out,
/// each with why it is not trained.
std::map<std::string, std::string> reasonsAgainstTraining(const Model &model, const Loss &loss,
                                                          const ParameterPatterns &patterns);

/// Whether the initializer, of one element and not trained, is a number that an exporter made or
/// wrote: the network has no parameter or buffer of its name, and so no weights that are given
/// instead of the file's.
bool isWrittenNumber(const Model &model, const Initializer &initializer);

/// `--optimizer` as it is given, else the file's, else sgd.
std::string chooseOptimizer(const Model &model, const std::string &option);

/// What an optimizer does otherwise for some weights, by patterns of their names.
struct UpdateGroups {
  std::vector<std::string> noDecay; ///< are not decayed
  std::vector<std::string> lrScale; ///< PATTERN=F: learn at F times the rate
};

/// Those that are given behind, beside the file's own optimizer, what that does otherwise for some
/// of the parameters.
UpdateGroups chooseGroups(const Model &model, const std::string &optimizer,
                          const std::set<std::string> &parameters, const UpdateGroups &given);

/// Nodes x + (y - x), which are y: so reads a gradient that goes straight through to x once an
/// exporter has dropped its `detach`.
std::vector<std::string> undoneDifferences(const Model &model);

} // namespace pdc
