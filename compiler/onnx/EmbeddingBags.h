#pragma once

#include "compiler/onnx/FlattenFunctions.h"

#include <functional>
#include <optional>

namespace pdc {

/// A Loop over the bags of an EmbeddingBag.
struct EmbeddingBagLoop {
  std::vector<FlatNode> nodes; ///< what takes its place, a pdc.EmbeddingBag among it
  /// What values outside of the Loop must be for that.
  std::vector<std::pair<std::string, double>> expected;
  /// Where it appends bags to a sequence: that one, which must be empty, what it is then, and the
  /// tensor whose rows its elements are.
  std::string list = "", appended = "", bags = "";
};

/// As PyTorch's older exporter writes one since opset 11. Nothing where the Loop is another one.
std::optional<EmbeddingBagLoop> stackedBagsOf(const FlatNode &loop);

/// What shapes and constants say of a number outside of a Loop.
using KnownNumbers = std::function<std::optional<double>(const std::string &)>;

/// As PyTorch's newer exporter writes one.
std::optional<EmbeddingBagLoop> appendedBagsOf(const FlatNode &loop, const KnownNumbers &known,
                                               Names &values);

} // namespace pdc
