#pragma once

#include "compiler/onnx/Model.h"

#include <set>
#include <string>
#include <vector>

namespace pdc {

/// Values that stand where weights do: operands of layers, of which some are initial states, and
/// terms of arithmetic, of which some are factors or settings.
struct WeightPlaces {
  explicit WeightPlaces(const std::vector<const ModelNode *> &nodes);

  std::set<std::string> layers, states, terms, factors, settings;
  /// Written as often as another value asks for.
  std::set<std::string> repeated;
  /// Elements are picked from tables (the factors of a diffusion's steps) as often as from weights.
  std::set<std::string> picked;
  /// Some of their elements are replaced.
  std::set<std::string> changed;
  /// What is convolved.
  std::set<std::string> images;
  /// Read as anything else than what rules must know, such as a shape.
  std::set<std::string> others;

  bool hold(const std::string &name) const {
    return layers.contains(name) || terms.contains(name) || picked.contains(name) ||
           images.contains(name);
  }

private:
  std::set<std::string> rooted; ///< of which square roots are taken

  void add(const ModelNode &node);
  void addWeight(const ModelNode &node, size_t operand);
  void addOther(const ModelNode &node, size_t operand);
};

} // namespace pdc
