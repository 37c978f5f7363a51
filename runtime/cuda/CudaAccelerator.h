#pragma once

#include "runtime/Accelerator.h"

/// What programs for GPUs name as their device.
namespace pdc::runtime::cuda {

extern const DeviceSupport support;

} // namespace pdc::runtime::cuda
