#pragma once

#include <random>
#include <string>

namespace pdc {

/// A file as a crash, a full disk or a wrong edit leaves it: cut off, with other bytes, with a
/// value exchanged, with a part twice or missing, or nothing of it left.
inline std::string damaged(std::string text, std::mt19937 &random) {
  auto draw = [&](size_t count) { return static_cast<size_t>(random() % count); };
  auto word = [&] {
    static const char *const words[] = {"-1",
                                        "1e300",
                                        "18446744073709551616",
                                        "9223372036854775807",
                                        "0.5",
                                        "null",
                                        "true",
                                        "\"x\"",
                                        "[]",
                                        "{}",
                                        "[[",
                                        "\"\\u0000\"",
                                        "nan",
                                        ",",
                                        "0"};
    return std::string(words[draw(std::size(words))]);
  };
  switch (draw(6)) {
  case 0:
    return text.substr(0, draw(text.size()));
  case 1:
    for (size_t count = 1 + draw(4); count > 0; --count)
      text[draw(text.size())] = static_cast<char>(draw(256));
    return text;
  case 2: {
    size_t at = text.find_first_of("0123456789", draw(text.size()));
    if (at == std::string::npos)
      return text + word();
    return text.replace(at, text.find_first_not_of("0123456789.e+-", at) - at, word());
  }
  case 3:
    return text.insert(draw(text.size()), text.substr(draw(text.size()), 1 + draw(40)));
  case 4:
    return text.erase(draw(text.size()), 1 + draw(40));
  default: {
    std::string other(draw(300), ' ');
    for (char &byte : other)
      byte = static_cast<char>(draw(256));
    return other;
  }
  }
}

} // namespace pdc
