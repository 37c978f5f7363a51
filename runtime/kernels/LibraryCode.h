#pragma once

namespace pdc::runtime {

/// Gives back the memory of what the process has read of oneDNN's own code and tables. Loading the
/// library reads megabytes of it once, making a primitive too, and running one little; what is
/// needed again is mapped again from the file.
void releaseLibraryCode();

} // namespace pdc::runtime
