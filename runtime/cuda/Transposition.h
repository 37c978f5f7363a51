#pragma once

#include "runtime/Program.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

/// Transposes matrices that lie one behind the other.
namespace pdc::runtime::cuda {

/// Elements of as many bytes: all that a movement asks of a type.
template <size_t Bytes>
using BitsOf = std::conditional_t<
    Bytes == 1, uint8_t,
    std::conditional_t<Bytes == 2, uint16_t, std::conditional_t<Bytes == 4, uint32_t, uint64_t>>>;

/// Whether matrices of this size fill the kernels' blocks; small ones leave most threads idle.
bool fillsBlocks(int64_t rows, int64_t columns, size_t elementBytes);

/// y[m][c][r] = x[m][r][c]. T: BitsOf<1>, <2>, <4>, <8>.
template <class T>
void transpose(const Run &run, int64_t matrices, int64_t rows, int64_t columns, const T *x, T *y);

} // namespace pdc::runtime::cuda
