#pragma once

#include "compiler/onnx/Parameters.h"
#include "testsuite/onnx/ModelText.h"

namespace pdc::testing {

using NameSet = std::set<std::string>;

inline NameSet trainedOf(const Model &model) {
  return chooseParameters(model, chooseLoss(model, ""), {});
}

inline std::map<std::string, std::string> reasonsOf(const Model &model) {
  return reasonsAgainstTraining(model, chooseLoss(model, ""), {});
}

/// A product with a sum behind it, twice: the second may have been added by hand.
inline onnx::ModelProto twoLayers() {
  onnx::ModelProto model = protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, 3] y) {
      a = MatMul(x, w1)
      b = Add(a, b1)
      c = MatMul(b, w2)
      y = Add(c, b2) })");
  for (const char *name : {"w1", "w2"})
    addInitializer(model, name, {3, 3}, std::vector<float>(9, 1));
  for (const char *name : {"b1", "b2"})
    addInitializer(model, name, {3}, {1, 2, 3});
  return model;
}

} // namespace pdc::testing
