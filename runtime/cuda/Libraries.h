#pragma once

#include "runtime/SmallFloats.h"
#include "runtime/cuda/Launch.h"
#include "runtime/cuda/Workspace.h"

#include <cublasLt.h>
#include <cudnn.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

/// cuBLASLt and cuDNN behind one door. Everything is made once, when a kernel is constructed.
namespace pdc::runtime::cuda {

/// The libraries' handles of this thread, for the device that is current: a rank is one thread.
cublasLtHandle_t matrixHandle();
cudnnHandle_t networkHandle();

/// Throw Error naming the unit and the call unless it succeeded.
void require(cublasStatus_t status, const char *call, const char *unit);
void require(cudnnStatus_t status, const char *call, const char *unit);
/// Of this thread's last call, which failed.
std::string reasonOf(cudnnStatus_t status);
/// Warns that a kernel of a unit did not run and that the library's next one does.
void tellReplaced(const char *library, const char *unit, const std::string &why);

/// What a unit multiplies, by its field `compute`: f32 as it is or rounded to TF32, or what is
/// stored in 16 bits. Sums are f32 whatever it is.
enum class Factors { fp32, tf32, bf16, fp16 };

/// Throws Error naming the unit for an unknown name.
Factors factorsOf(std::string_view compute, const char *unit);
inline bool areNarrow(Factors factors) {
  return factors == Factors::bf16 || factors == Factors::fp16;
}

/// use(data) as a pointer to the type that such factors are stored in.
template <class T, class Use> void asStored(Factors factors, T *data, Use use) {
  constexpr bool isConst = std::is_const_v<T>;
  if (factors == Factors::bf16)
    use(static_cast<std::conditional_t<isConst, const BFloat16, BFloat16> *>(data));
  else if (factors == Factors::fp16)
    use(static_cast<std::conditional_t<isConst, const Float16, Float16> *>(data));
  else
    use(static_cast<std::conditional_t<isConst, const float, float> *>(data));
}

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
