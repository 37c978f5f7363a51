#pragma once

#include "runtime/kernels/AttentionFields.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pdc::testing {

/// How cuDNN's plans for an attention of 16 bits differ from the kernels here in f32 on the same
/// values by more than the rounding of shares and of the gradients of scores: y, the logarithms of
/// the rows' sums, dq, dk and dv, and where the fields' results are {3} the mask's gradient. Empty:
/// not at all. Needs a device, or the emulation of one.
///
/// `added`: to all scores, of a mask of numbers.
/// `unseen`: a query that sees no key, in all heads and samples, or -1. Unless `guarded`, nothing
/// is promised of it (in ONNX's terms its shares are NaN), nor of the gradients of its heads;
/// results of other rows are right.
template <class T>
std::vector<std::string> attentionDifferences(const runtime::AttentionFields &fields,
                                              cudaStream_t stream, int64_t workspaceBytes,
                                              int64_t unseen = -1, float added = 0);

} // namespace pdc::testing
