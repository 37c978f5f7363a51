#pragma once

#include "runtime/QuantityText.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace pdc {

/// Text of a user for an element or a quoted attribute: markup is spelled out, control characters
/// and what is not UTF-8 are replaced, and beyond `most` characters an ellipsis stands for the
/// rest.
std::string htmlText(std::string_view text, size_t most = 200);

using runtime::bytesText;
using runtime::secondsText;

/// "37 %"
std::string percentText(double share);

/// A coordinate of a drawing to a tenth of a pixel, as short as can be.
std::string coordinate(double value);

/// "1.06"
std::string ratioText(double value);

/// A bar that fills its part of a table cell; the number stands beside it.
std::string bar(double share, const std::string &style);

/// The custom property by which styles colour whatever belongs to a stage.
std::string stageColour(int stage);

} // namespace pdc
