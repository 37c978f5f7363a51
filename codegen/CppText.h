#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace pdc {

/// Generated lines are this long at most.
inline constexpr unsigned kColumns = 100;

/// A C++ string literal with these bytes and nothing else, quotes included: printable ASCII stands
/// as it is, everything else and `?` (trigraphs) is escaped.
std::string stringLiteral(llvm::StringRef text);

/// `text` for a `//` comment: as it is when it is an ordinary name, else quoted and escaped, so
/// that it can neither end the line nor continue it. Printable Unicode stays readable.
std::string commentText(llvm::StringRef text);

/// The shortest literal that is this value as a float or double: `0.9f`, `1e-05`.
std::string floatLiteral(double value);
std::string doubleLiteral(double value);
/// Predicted seconds, of which more than four digits would say nothing.
std::string secondsLiteral(double seconds);
std::string integerLiteral(int64_t value);

/// Whether the text may name a tensor: an identifier without `__` and without `_` at its end, which
/// marks what the generated source names itself.
bool isPlainIdentifier(llvm::StringRef text);

/// `slots.0` -> `Slots0`, `fc1_weight` -> `Fc1Weight`.
std::string toCamelCase(llvm::StringRef text);

/// `opening` item, item, ... `closing`, broken behind commas so that no line is longer than 100
/// columns where that is possible. Broken lines are indented to the end of `opening`, or by four
/// where that is far to the right; `base` columns stand before each line already.
std::string listText(llvm::StringRef opening, llvm::ArrayRef<std::string> items,
                     llvm::StringRef closing, unsigned base);

/// A `//` comment of ordinary text and of names that went through commentText, broken at spaces;
/// `base` columns stand before each line already.
std::string commentBlock(llvm::StringRef text, unsigned base = 0);

} // namespace pdc
