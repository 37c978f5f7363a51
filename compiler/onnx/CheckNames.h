#pragma once

#include <string>

namespace pdc {

/// Throws for a name that weights files, plans or messages could not hold: with a NUL, not in
/// UTF-8, or __metadata__, which means something else in weights files. `what` it is of stands in
/// the refusal, as in "initializer".
void checkName(const std::string &name, const std::string &what);

} // namespace pdc
