#include "runtime/kernels/Processor.h"

#include "runtime/Error.h"

#include <immintrin.h>
#include <string_view>

namespace pdc::runtime {

static bool hasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
}

static bool hasAvx512() {
  return hasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

void requireProcessor() {
  __builtin_cpu_init();
  bool wide = std::string_view(PDC_ISA_NAME) == "avx512";
  if (wide ? !hasAvx512() : !hasAvx2())
    throw Error(
        "this machine lacks the instruction set ", PDC_ISA_NAME,
        ", for which the sources were generated and built; run pdc on this machine, or with "
        "the instruction set it has, and build again");
}

void flushSubnormals() {
  constexpr unsigned resultsToZero = 1u << 15, operandsAreZeros = 1u << 6; // FTZ and DAZ of MXCSR
  _mm_setcsr(_mm_getcsr() | resultsToZero | operandsAreZeros);
}

} // namespace pdc::runtime
