#include "codegen/CppText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Unicode.h"

#include <charconv>
#include <cmath>
#include <limits>

using llvm::StringRef;

namespace pdc {

/// Three octal digits: unlike \x they cannot swallow what follows.
static std::string octal(unsigned char byte) {
  std::string text = "\\000";
  for (int i = 3; i > 0; --i, byte >>= 3)
    text[i] = static_cast<char>('0' + (byte & 7));
  return text;
}

static std::string escaped(char c, char before) {
  switch (c) {
  case '"':
    return "\\\"";
  case '\\':
    return "\\\\";
  case '?':
    return "\\?";
  case '\n':
    return "\\n";
  case '\t':
    return "\\t";
  case '/':
    return before == '*' ? octal('/') : "/";
  default:
    return llvm::isPrint(c) ? std::string(1, c) : octal(static_cast<unsigned char>(c));
  }
}

std::string stringLiteral(StringRef text) {
  std::string literal = "\"";
  char before = 0;
  for (char c : text) {
    literal += escaped(c, before);
    before = c;
  }
  return literal + '"';
}

/// The length of the printable multi-byte character at the start of `text`; 0 when there is none.
/// Formatting characters such as bidirectional overrides are not printable.
static size_t printableUnicode(StringRef text) {
  auto *source = reinterpret_cast<const llvm::UTF8 *>(text.data());
  unsigned length = llvm::getNumBytesForUTF8(*source);
  if (length < 2 || length > text.size())
    return 0;
  const llvm::UTF8 *begin = source;
  llvm::UTF32 codePoint = 0;
  if (llvm::convertUTF8Sequence(&begin, source + length, &codePoint, llvm::strictConversion) !=
      llvm::conversionOK)
    return 0;
  return llvm::sys::unicode::isPrintable(static_cast<int>(codePoint)) ? length : 0;
}

static bool isOrdinary(StringRef text) {
  return !text.empty() && llvm::all_of(text, [](char c) {
    return llvm::isAlnum(c) || StringRef("_./:-@#+=").contains(c);
  });
}

std::string commentText(StringRef text) {
  if (isOrdinary(text))
    return text.str();
  std::string quoted = "\"";
  for (size_t i = 0; i < text.size();) {
    size_t length = printableUnicode(text.drop_front(i));
    quoted += length ? text.substr(i, length).str() : escaped(text[i], i ? text[i - 1] : '\0');
    i += length ? length : 1;
  }
  return quoted + '"';
}

template <class T> static std::string shortest(T value, StringRef type, StringRef suffix) {
  if (!std::isfinite(value)) {
    std::string limits = ("std::numeric_limits<" + type + ">::").str();
    return std::isnan(value) ? limits + "quiet_NaN()"
                             : (value < 0 ? "-" : "") + limits + "infinity()";
  }
  char buffer[64];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos)
    text += ".0";
  return text + suffix.str();
}

std::string floatLiteral(double value) { return shortest(static_cast<float>(value), "float", "f"); }

std::string doubleLiteral(double value) { return shortest(value, "double", ""); }

std::string secondsLiteral(double seconds) {
  char buffer[64];
  auto [end, error] =
      std::to_chars(buffer, buffer + sizeof buffer, seconds, std::chars_format::scientific, 3);
  double rounded = seconds;
  std::from_chars(buffer, end, rounded);
  return doubleLiteral(rounded);
}

std::string integerLiteral(int64_t value) {
  // The smallest integer has no literal: its digits alone do not fit.
  if (value == std::numeric_limits<int64_t>::min())
    return "(-9223372036854775807 - 1)";
  return std::to_string(value);
}

bool isPlainIdentifier(StringRef text) {
  auto isLegal = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  return !text.empty() && llvm::isAlpha(text.front()) && llvm::all_of(text, isLegal) &&
         !text.contains("__") && !text.ends_with("_");
}

std::string toCamelCase(StringRef text) {
  std::string camel;
  bool upper = true;
  for (char c : text) {
    if (llvm::isAlnum(c))
      camel += upper ? llvm::toUpper(c) : c;
    upper = !llvm::isAlnum(c);
  }
  return camel;
}

std::string listText(StringRef opening, llvm::ArrayRef<std::string> items, StringRef closing,
                     unsigned base) {
  constexpr size_t far = 48;
  size_t lead = opening.size() - opening.ltrim().size();
  size_t indent = opening.size() <= far || items.empty() ? opening.size() : lead + 4;
  std::string text = opening.str();
  size_t column = base + opening.size();
  for (auto [i, item] : llvm::enumerate(items)) {
    std::string piece = item + (i + 1 == items.size() ? closing.str() : ",");
    bool breaks = column + (i > 0) + piece.size() > kColumns && (i > 0 || indent < opening.size());
    if (breaks)
      text += "\n" + std::string(indent, ' ');
    else if (i > 0)
      text += " ";
    column = (breaks ? base + indent : column + (i > 0)) + piece.size();
    text += piece;
  }
  return items.empty() ? text + closing.str() : text;
}

std::string commentBlock(StringRef text, unsigned base) {
  std::string block = "//";
  size_t column = base + 2;
  for (StringRef word : llvm::split(text, ' ')) {
    if (column > base + 2 && column + 1 + word.size() > kColumns) {
      block += "\n//";
      column = base + 2;
    }
    block += " " + word.str();
    column += 1 + word.size();
  }
  return block + "\n";
}

} // namespace pdc
