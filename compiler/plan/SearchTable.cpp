#include "compiler/plan/SearchTable.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pdc {

namespace {

#if defined(__x86_64__)
__attribute__((target("avx2"))) void improveWide(double *best, const double *before, double price,
                                                 int count) {
  __m256d prices = _mm256_set1_pd(price);
  int i = 0;
  for (; i + 4 <= count; i += 4) {
    __m256d slowest = _mm256_max_pd(_mm256_loadu_pd(before + i), prices);
    _mm256_storeu_pd(best + i, _mm256_min_pd(slowest, _mm256_loadu_pd(best + i)));
  }
  for (; i < count; ++i)
    best[i] = std::min(best[i], std::max(before[i], price));
}
const bool isWide = __builtin_cpu_supports("avx2");
#else
constexpr bool isWide = false;
void improveWide(double *, const double *, double, int) {}
#endif

} // namespace

void improveRow(double *best, const double *before, double price, int count) {
  if (isWide && count >= 4)
    return improveWide(best, before, price, count);
  for (int i = 0; i < count; ++i)
    best[i] = std::min(best[i], std::max(before[i], price));
}

} // namespace pdc
