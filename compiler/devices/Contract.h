#pragma once

namespace pdc {

/// Of the contract between emitted sources and the runtime. Sources hold the number itself: those
/// of another version are refused when they start.
int contractVersion();

} // namespace pdc
