#pragma once

#include "compiler/schedule/Schedule.h"

#include <random>
#include <vector>

namespace pdc {

/// A chain with several tensors per boundary, and values drawn at random that skip stages forward
/// (read there by the forward or by the backward pass), most of them with a gradient that comes
/// back.
std::vector<Edge> randomEdges(int stages, std::mt19937 &random);

} // namespace pdc
