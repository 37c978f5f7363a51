#pragma once

#include "compiler/onnx/EmbeddingBags.h"

#include <map>

namespace pdc {

/// What all Loops over bags have that are recognised by their bodies.
class BagMatch {
protected:
  explicit BagMatch(const FlatNode &loop);

  /// Null for what the body does not make.
  const FlatNode *nodeOf(const std::string &name) const;
  const onnx::NodeProto *maker(const std::string &name) const;
  const onnx::NodeProto *maker(const std::string &name, const char *op, int inputs) const;
  bool isOutside(const std::string &name) const;
  /// Sets `mode`; false for other reductions.
  bool readMode(const onnx::NodeProto &reduction);
  /// In the Loop's place, of these inputs.
  FlatNode bag(const std::vector<std::string> &inputs, const std::string &output) const;

  const FlatNode &loop;
  const LoopBody &body;
  std::vector<std::pair<std::string, double>> expected; ///< EmbeddingBagLoop
  std::string mode;

private:
  std::map<std::string, const FlatNode *> makers;
};

} // namespace pdc
