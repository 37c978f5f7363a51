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

/// What a kernel finds in the data of a microbatch and cannot use: `value` of a sample, counted
/// from the microbatch's first, is not in `least` to `most`. Who reads the data knows its file.
struct DataError : Error {
  DataError(int64_t sample, int64_t value, int64_t least, int64_t most)
      : Error("sample ", sample, " of a microbatch holds ", value, ", expected ", least, " to ",
              most),
        sample(sample), value(value), least(least), most(most) {}
  const int64_t sample, value, least, most;
};

} // namespace pdc::runtime
