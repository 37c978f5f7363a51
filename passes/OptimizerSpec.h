#pragma once

#include "compiler/operators/Operator.h"

namespace pdc {

/// An optimizer as the command line names it, such as `momentum,lr=0.1,weight_decay=1e-4`.
struct OptimizerSpec {
  std::string kind;
  double learningRate = 0;
  /// The node that updates one weight: its operator, its attributes but `weight_decay`, and the
  /// checkpoint names of the state it keeps per weight (`NAME/momentum`).
  std::string op;
  Attributes attributes;
  double weightDecay = 0;
  std::vector<std::string> states;
  /// What each state begins as.
  double initialState = 0;
  /// Whether the node makes no weight but the direction in which LAMB goes as far as the weight is
  /// long.
  bool scalesByNorms = false;
  /// Whether the update reads the number of the update.
  bool readsStep() const { return !states.empty(); }
};

/// Throws Error for an unknown kind or key, a malformed number or one out of range.
OptimizerSpec parseOptimizer(std::string_view text);

/// Weights that learn at `factor` times the learning rate: `encoder.*=0.1`.
struct ScaledRate {
  std::string pattern;
  double factor = 1;
};

/// The pattern ends at the last `=`. Throws Error without a number or for one that is negative or
/// infinite.
ScaledRate parseScaledRate(std::string_view text);

} // namespace pdc
