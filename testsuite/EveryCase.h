#pragma once

namespace pdc {

/// Tests draw hundreds of cases for what they assert. A sanitizer looks for something else, which
/// few cases show as well, and slows each down tenfold: there they draw this part of them.
#ifdef PDC_SANITIZED
inline constexpr int kEveryCase = 11;
#else
inline constexpr int kEveryCase = 1;
#endif

} // namespace pdc
