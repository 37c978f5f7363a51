#pragma once

#include "runtime/cuda/Launch.h"
#include "runtime/cuda/Workspace.h"

#include <cublasLt.h>
#include <cudnn.h>

#include <cstddef>
#include <string_view>

/// cuBLASLt and cuDNN behind one door. Everything is made once, when a kernel is constructed.
namespace pdc::runtime::cuda {

/// The libraries' handles of this thread, for the device that is current: a rank is one thread.
cublasLtHandle_t matrixHandle();
cudnnHandle_t networkHandle();

/// Throw Error naming the unit and the call unless it succeeded.
void require(cublasStatus_t status, const char *call, const char *unit);
void require(cudnnStatus_t status, const char *call, const char *unit);

/// Whether a unit's products are computed in TF32 ("tf32"), or as f32 has them ("fp32"). Throws
/// Error naming the unit for anything else.
bool computesInTf32(std::string_view compute, const char *unit);

/// The compiler's bound has room for the alignment.
inline void *alignedWorkspace(const Run &run) {
  auto address = reinterpret_cast<uintptr_t>(run.scratchBase);
  return reinterpret_cast<void *>((address + kWorkspaceAlignment - 1) & ~(kWorkspaceAlignment - 1));
}
/// What is left of the device's workspace behind the alignment.
inline size_t workspaceRoom(const Device &device) {
  const int64_t room = device.workspaceBytes - kWorkspaceAlignment;
  return room > 0 ? static_cast<size_t>(room) : 0;
}

} // namespace pdc::runtime::cuda
