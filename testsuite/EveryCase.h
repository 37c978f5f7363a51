#pragma once

#include <random>

namespace pdc {

/// Tests draw hundreds of cases for what they assert. A sanitizer looks for something else, which
/// few cases show as well, and slows each down tenfold: there they draw this part of them.
#ifdef PDC_SANITIZED
inline constexpr int kEveryCase = 11;
#else
inline constexpr int kEveryCase = 1;
#endif

/// The numbers that one case of a test draws, whichever other cases are run: those of a sanitizer
/// are among those of a release.
inline std::mt19937 drawsOf(unsigned test, int round) {
  std::seed_seq seed{test, static_cast<unsigned>(round)};
  return std::mt19937(seed);
}

} // namespace pdc
