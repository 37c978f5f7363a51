#pragma once

#include "compiler/devices/Device.h"
#include "runtime/Program.h"

#include <functional>

namespace pdc {

/// A runtime kernel that can be called with all of its pointers, operands first.
using KernelCall =
    std::function<void(const runtime::Run &run, const std::vector<void *> &pointers, bool add)>;

/// Makes the kernel as generated code would; throws std::runtime_error for a kernel it does not
/// know.
KernelCall makeKernel(const KernelChoice &choice, const runtime::Device &device);

} // namespace pdc
