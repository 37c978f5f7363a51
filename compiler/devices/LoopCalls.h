#pragma once

#include <optional>
#include <string_view>

namespace pdc {

/// The functions that a loop calls for each element.
struct LoopCalls {
  double exponentials = 0; ///< what they cost, as multiples of a library's exponential
  bool ofLibrary = false;  ///< some are the mathematical library's; others loops have as vectors
};

/// Of an operator's expression; calls of equal arguments are one. `last`: its last operand where
/// that is a number known beforehand: a power of it that is a product calls nothing.
LoopCalls loopCalls(std::string_view op, std::string_view expression, std::optional<double> last);

} // namespace pdc
