#pragma once

#include <stdexcept>
#include <string>

namespace pdc {

/// A refusal of the user's input. The text says what is wrong, where (file, node, field), what was
/// expected and found, and what to do; it starts in lower case and has no final stop. Tools print
/// it behind "error: " and exit with 1; passes turn it into a diagnostic at the operation.
class Error : public std::runtime_error {
public:
  explicit Error(const std::string &message) : std::runtime_error(message) {}
};

/// The memory of devices is too small, as planned or as laid out.
class MemoryError : public Error {
public:
  using Error::Error;
};

} // namespace pdc
