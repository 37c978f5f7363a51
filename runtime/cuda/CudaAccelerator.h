#pragma once

#include "runtime/Accelerator.h"

/// What programs for GPUs name as their device.
namespace pdc::runtime::cuda {

extern const DeviceSupport support;
/// Whose NCCL has a communicator and a stream for each directed edge between two ranks.
extern const DeviceSupport supportOfEdges;

} // namespace pdc::runtime::cuda
