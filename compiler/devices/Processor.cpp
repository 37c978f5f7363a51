#include "compiler/devices/LibraryAnswer.h"

namespace pdc {

/// Skylake's set of AVX-512, which x86-64-v4 stands for.
static bool hasAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

static bool hasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
}

DeviceKind deviceKind(std::string_view name) {
  if (name == "cpu")
    return DeviceKind::cpu;
  if (name == "cuda")
    return DeviceKind::cuda;
  throw Error("device '" + std::string(name) + "' is unknown; there are cpu and cuda");
}

DeviceOptions detectDevice(std::string_view isa) {
  DeviceOptions options;
  if (isa == "avx512" || (isa.empty() && hasAvx512()))
    return options;
  options.vectorWidth = 8;
  if (isa == "avx2" || (isa.empty() && hasAvx2()))
    return options;
  if (isa.empty())
    throw Error("this machine has neither AVX-512 nor AVX2, which the kernels need; name the "
                "instruction set of the machine that will train: avx512 or avx2");
  throw Error("instruction set '" + std::string(isa) + "' is unknown; expected avx512 or avx2");
}

bool canAskLibrary(const DeviceOptions &options) {
  return options.vectorWidth == 16 ? hasAvx512() : hasAvx2();
}

} // namespace pdc
