#pragma once

#include "compiler/Error.h"

#include <exception>
#include <functional>
#include <iostream>
#include <new>
#include <string>

namespace pdc {

/// A command line that no input could make right: an unknown choice, a malformed number, options
/// that contradict each other.
class UsageError : public Error {
public:
  using Error::Error;
};

/// Gives a CLI::App's usage errors the form of all others.
template <class App> void nameUsageErrors(App &app) {
  app.failure_message([](const auto *, const auto &error) {
    return std::string("error: ") + error.what() + "\nrun with --help for more information\n";
  });
}

/// Runs a command and returns its exit code: what the body returns, 2 for UsageError, 1 for
/// anything else that it throws, whose text goes to standard error behind "error: ".
inline int runCommand(const std::function<int()> &body) {
  try {
    int code = body();
    std::cout.flush();
    if (!std::cout)
      throw Error("cannot write to standard output");
    return code;
  } catch (const UsageError &error) {
    std::cerr << "error: " << error.what() << '\n';
    return 2;
  } catch (const std::bad_alloc &) {
    std::cerr << "error: out of memory\n";
  } catch (const std::exception &error) {
    std::cerr << "error: " << error.what() << '\n';
  }
  return 1;
}

} // namespace pdc
