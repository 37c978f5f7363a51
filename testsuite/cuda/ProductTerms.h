#pragma once

#include "runtime/Program.h"
#include "runtime/SmallFloats.h"

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace pdc::testing {

/// What products of factors of T compute in: float stands for TF32.
template <class T> const char *computeOf() {
  return std::is_same_v<T, float> ? "tf32" : std::is_same_v<T, runtime::BFloat16> ? "bf16" : "fp16";
}

/// A product of rows x columns sums of so many terms.
struct SumSizes {
  int64_t rows, terms, columns;
};

/// Where products run: what the device has, and a queue and workspace of it.
struct ProductPlace {
  runtime::Device device;
  runtime::Run run;
};

/// Products of factors of T to f32, by each of the kernels that cuBLASLt ranks for them, as far as
/// --tune looks: what is wrong, and by which of them (0 is taken without --tune). Empty: nothing.
/// T: float (as TF32), BFloat16, Float16.
///
/// Of ones, each sum is as many as its terms: a kernel that cuts a sum into parts may lose what
/// does not fill one. Both for a weight's gradient, and for rows that lie at multiples of 16 bytes.
template <class T>
std::vector<std::string> lostTerms(const ProductPlace &place, const std::vector<SumSizes> &all);
/// The bits of a weight's gradient, made so often.
template <class T>
std::vector<std::string> changedBits(const ProductPlace &place, const SumSizes &sizes, int turns);

} // namespace pdc::testing
