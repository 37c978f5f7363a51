#pragma once

#include <string>

namespace pdc {

/// The folder of the CMake package PdcRuntime that belongs to this pdc: both an install prefix and
/// a build tree have it in lib/cmake beside bin.
std::string runtimePackage();

} // namespace pdc
