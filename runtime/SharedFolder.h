#pragma once

#include "runtime/Control.h"

#include <string>

namespace pdc::runtime {

/// Refuses on all ranks, which are processes of their own and all call this, a folder for
/// checkpoints that rank 0 has and another does not see: all write into it, rank 0 what tells of
/// all. A checkpoint would fail else, hours later. Empty: nothing is saved.
void requireSharedFolder(const std::string &folder, int rank, Control &control);

} // namespace pdc::runtime
