#pragma once

#include "runtime/kernels/ChannelLayout.h"
#include "runtime/kernels/Dimensions.h"

#include <dnnl.hpp>

#include <cstdint>
#include <span>
#include <string_view>

namespace pdc::runtime {

/// The same list as oneDNN takes it.
inline dnnl::memory::dims libraryList(const Dimensions &values) {
  return {values.begin(), values.end()};
}

/// The oneDNN description of f32 (or other) data of this shape under a format tag as the compiler
/// writes it: "" is row-major, "aBcd16b" blocked. Throws Error on a tag that does not fit.
dnnl::memory::desc describe(std::span<const int64_t> shape, std::string_view tag,
                            dnnl::memory::data_type type = dnnl::memory::data_type::f32);

/// Size of the inner block over dimension 1 in an activation's tag: 16 for "aBcd16b", 1 for none.
int64_t channelBlock(std::string_view tag);

} // namespace pdc::runtime
