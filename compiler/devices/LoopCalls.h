#pragma once

#include <optional>
#include <string_view>

namespace pdc {

/// What the functions that a loop calls for each element cost, as multiples of a library's
/// exponential.
struct LoopCalls {
  double library = 0; ///< those of the mathematical library
  double vectors = 0; ///< those that loops have as vectors
  double alone =
      0; ///< the same one by one: a call of the library keeps a loop from going by vectors

  double exponentials() const { return library > 0 ? library + alone : vectors; }
  LoopCalls &operator+=(const LoopCalls &other);
  LoopCalls operator*(double times) const {
    return {library * times, vectors * times, alone * times};
  }
};

/// Of an operator's expression; calls of equal arguments are one. `last`: its last operand where
/// that is a number known beforehand: a power of it that is a product calls nothing.
LoopCalls loopCalls(std::string_view op, std::string_view expression, std::optional<double> last);

} // namespace pdc
