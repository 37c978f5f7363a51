#pragma once

#include "compiler/onnx/FlattenFunctions.h"

namespace pdc {

/// Writes a Loop as what its body does in one iteration after the other.
class LoopUnrolling {
public:
  LoopUnrolling(const FlatNode &loop, Names &values);

  /// The nodes of the next iteration, in order.
  std::vector<FlatNode> next();
  /// What says whether another follows the one before.
  const std::string &condition() const { return condition_; }
  /// The nodes that make the Loop's outputs. Throws Error for an output that stacks no iteration.
  std::vector<FlatNode> finish();

private:
  FlatNode node(const char *op, std::string suffix) const;
  void addConstants(std::vector<FlatNode> &nodes);

  const FlatNode &loop;
  Names &values;
  int64_t iterations = 0;
  std::string condition_;
  std::vector<std::string> carried;             ///< from one iteration to the next
  std::vector<std::vector<std::string>> stacks; ///< one value per iteration
};

} // namespace pdc
