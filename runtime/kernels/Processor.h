#pragma once

namespace pdc::runtime {

/// Throws Error when this machine lacks the instruction set that the kernels were built for. Call
/// it before anything else of the kernels.
void requireProcessor();

/// Numbers below the least normal one count as zero, in this thread and those that it starts: an
/// instruction that meets one takes some hundred times as long, and softmax, sigmoid and an
/// optimizer's states that fade away make them.
void flushSubnormals();

} // namespace pdc::runtime
