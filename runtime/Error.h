#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace pdc::runtime {

/// A refusal of the user's input, or the end of a run. The text says what, where, expected, found
/// and what to do; it starts in lower case and has no final stop.
class Error : public std::runtime_error {
public:
  template <class... Parts>
  explicit Error(const Parts &...parts) : std::runtime_error(joined(parts...)) {}

private:
  template <class... Parts> static std::string joined(const Parts &...parts) {
    std::ostringstream text;
    (text << ... << parts);
    return text.str();
  }
};

} // namespace pdc::runtime
