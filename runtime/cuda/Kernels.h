#pragma once

#include "runtime/cuda/LayerKernels.h"
#include "runtime/cuda/LossKernels.h"
#include "runtime/cuda/MovementKernels.h"
#include "runtime/cuda/ProductKernels.h"
#include "runtime/cuda/RecurrentKernels.h"
#include "runtime/cuda/UpdateKernels.h"

/// What generated CUDA stages call. Each class is the CPU's kernel of the same name (the contracts
/// stand in runtime/kernels): made once, called with device pointers, operands first. A call puts
/// its work into the run's queue and returns; none allocates, waits or copies beside it. Images are
/// channels-last (acdb), all sums have a fixed order.
