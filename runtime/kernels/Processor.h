#pragma once

namespace pdc::runtime {

/// Throws Error when this machine lacks the instruction set that the kernels were built for. Call
/// it before anything else of the kernels.
void requireProcessor();

} // namespace pdc::runtime
