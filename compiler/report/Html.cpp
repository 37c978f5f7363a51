#include "compiler/report/Html.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace pdc {

namespace {

/// The length of the UTF-8 character that begins here; 0: this is none.
size_t characterLength(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t length = byte(0) < 0x80   ? 1
                  : byte(0) < 0xc2 ? 0
                  : byte(0) < 0xe0 ? 2
                  : byte(0) < 0xf0 ? 3
                  : byte(0) < 0xf5 ? 4
                                   : 0;
  if (length > text.size())
    return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80)
      return 0;
  // Overlong forms, surrogates, beyond the last character.
  if ((byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) > 0x9f) ||
      (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) > 0x8f))
    return 0;
  return length;
}

void appendCharacter(std::string &result, std::string_view character) {
  switch (character[0]) {
  case '&':
    result += "&amp;";
    return;
  case '<':
    result += "&lt;";
    return;
  case '>':
    result += "&gt;";
    return;
  case '"':
    result += "&quot;";
    return;
  case '\'':
    result += "&#39;";
    return;
  default:
    bool isControl = character.size() == 1 &&
                     (static_cast<unsigned char>(character[0]) < 0x20 || character[0] == 0x7f);
    // C1 controls, and marks that turn the direction of the text around them.
    isControl |= character.size() == 2 && character[0] == '\xc2' &&
                 static_cast<unsigned char>(character[1]) < 0xa0;
    isControl |= character.size() == 3 && character.substr(0, 2) == "\xe2\x80" &&
                 static_cast<unsigned char>(character[2]) >= 0xa8 &&
                 static_cast<unsigned char>(character[2]) <= 0xae;
    isControl |= character.size() == 3 && character.substr(0, 2) == "\xe2\x81" &&
                 static_cast<unsigned char>(character[2]) >= 0xa6 &&
                 static_cast<unsigned char>(character[2]) <= 0xa9;
    result += isControl ? "\xef\xbf\xbd" : character;
  }
}

template <class... Values> std::string formatted(const char *pattern, Values... values) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

} // namespace

std::string htmlText(std::string_view text, size_t most) {
  std::string result;
  for (size_t count = 0; !text.empty(); ++count) {
    if (count == most)
      return result + "…";
    size_t length = characterLength(text);
    appendCharacter(result, length ? text.substr(0, length) : std::string_view("\x01", 1));
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return result;
}

std::string percentText(double share) { return formatted("%.0f %%", 100 * share); }

std::string coordinate(double value) {
  double tenths = std::round(value * 10);
  if (tenths == std::round(tenths / 10) * 10)
    return formatted("%.0f", tenths / 10 + 0.0);
  return formatted("%.1f", tenths / 10);
}

std::string ratioText(double value) { return formatted("%.2f", value); }

std::string bar(double share, const std::string &style) {
  return "<span class=\"bar\"><span style=\"width:" +
         coordinate(100 * std::clamp(share, 0.0, 1.0)) + "%;" + style + "\"></span></span>";
}

/// Neighbours differ by the golden angle, so that few stages are far apart and many never alike.
std::string stageColour(int stage) {
  return "--h:" + coordinate(std::fmod(255 + 137.508 * stage, 360));
}

} // namespace pdc
