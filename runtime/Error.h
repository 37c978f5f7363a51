#pragma once

#include <cstdint>
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

/// What a kernel finds in the data of a microbatch and cannot use. Who reads the data knows its
/// file.
struct DataError : Error {
  /// `part` of `parts` equal ones of the microbatch holds `value`; without parts one that is not
  /// known. `expected` and `remedy` are parts of a sentence.
  DataError(int64_t part, int64_t parts, int64_t value, std::string expected, std::string remedy)
      : Error("the data hold ", value, ", expected ", expected, "; ", remedy), part(part),
        parts(parts), value(value), expected(std::move(expected)), remedy(std::move(remedy)) {}
  const int64_t part, parts, value;
  const std::string expected, remedy;
};

} // namespace pdc::runtime
