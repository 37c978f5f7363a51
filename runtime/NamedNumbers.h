#pragma once

#include "runtime/Control.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace pdc::runtime {

/// What ranks tell one another about their tensors: a name and a number, each ended by a zero byte.
std::string namedNumber(const std::string &name, int64_t number);

/// The pairs of a text that `rank` wrote; throws Error where it holds anything else.
std::vector<std::pair<std::string, int64_t>> namedNumbers(const std::string &text, int rank);

/// What any rank tells of a name. Calls `differ(name, one rank, another)` where two tell otherwise.
std::map<std::string, int64_t>
gatherAlike(Control &control, const std::map<std::string, int64_t> &mine,
            const std::function<void(const std::string &, int, int)> &differ);

} // namespace pdc::runtime
