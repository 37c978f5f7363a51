#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

namespace pdc::runtime {

/// Three digits, or the nearest whole number where that has more: "17.3", "0.25", "1234". Never a
/// power of ten between 1e-4 and 1e15.
inline std::string threeDigits(double value) {
  char text[64];
  bool isWhole = std::abs(value) >= 999.5 && std::abs(value) < 1e15;
  std::snprintf(text, sizeof text, isWhole ? "%.0f" : "%.3g", value);
  return text;
}

/// "1.23 s", "17.3 ms", "0.25 us".
inline std::string secondsText(double seconds) {
  // What rounds to a thousand has the next unit.
  if (seconds == 0 || seconds >= 0.9995)
    return threeDigits(seconds) + " s";
  return seconds >= 0.9995e-3 ? threeDigits(seconds * 1e3) + " ms"
                              : threeDigits(seconds * 1e6) + " us";
}

/// "40 KB", "2.1 GB"; powers of a thousand.
inline std::string bytesText(int64_t bytes) {
  const char *units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
  double number = static_cast<double>(bytes);
  int unit = 0;
  for (; number >= 999.5 && unit < 5; ++unit)
    number /= 1000;
  return threeDigits(number) + " " + units[unit];
}

} // namespace pdc::runtime
