#pragma once

#include "compiler/onnx/FlattenFunctions.h"

#include <optional>

namespace pdc {

/// A Loop over the bags of an EmbeddingBag, as PyTorch's exporter writes one since opset 11.
struct EmbeddingBagLoop {
  FlatNode bag; ///< pdc.EmbeddingBag, which takes the Loop's place
  /// What values outside of the Loop must be for that.
  std::vector<std::pair<std::string, double>> expected;
};

/// Nothing where the Loop is another one.
std::optional<EmbeddingBagLoop> embeddingBagOf(const FlatNode &loop);

} // namespace pdc
