#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pdc::runtime {

/// What ranks tell one another about their tensors: a name and a number, each ended by a zero byte.
std::string namedNumber(const std::string &name, int64_t number);

/// The pairs of a text that `rank` wrote; throws Error where it holds anything else.
std::vector<std::pair<std::string, int64_t>> namedNumbers(const std::string &text, int rank);

} // namespace pdc::runtime
