#pragma once

namespace pdc {

/// An attribute of a Slice that stands for an element of a sequence: the shape rule refuses an empty
/// result, for then the element is not there.
inline constexpr const char *kRefusesEmpty = "refuses_empty";

} // namespace pdc
