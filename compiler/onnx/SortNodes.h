#pragma once

#include "compiler/onnx/FlattenFunctions.h"

#include <functional>

namespace pdc {

/// Brings the nodes into an order in which each value is made before it is read; nodes that are in
/// order stay where they are. `isGiven` tells the names that no node makes. Throws for values that
/// nobody makes, that two make, and for cycles.
std::vector<FlatNode> sortNodes(std::vector<FlatNode> nodes,
                                const std::function<bool(const std::string &)> &isGiven);

} // namespace pdc
