#pragma once

#include <string>

namespace pdc::runtime::cuda {

/// Sets what CUDA reads when it begins; call it before there are threads, which read the
/// environment. Returns what its user should know, or nothing.
std::string setCudaEnvironment();

} // namespace pdc::runtime::cuda
